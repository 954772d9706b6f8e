// StoreConnection is one client of a server: its socket, the bytes that it sent and that are not
// parsed yet, and the replies that it has not taken.  StoreConnections makes all decisions.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <boost/asio/ip/tcp.hpp>

#include "distrun/store_limits.h"
#include "store/protocol/request.h"
#include "store/protocol/request_parser.h"
#include "store/table/table.h"

namespace distrun {

// The buffers of a connection may take this much, however full the store is.
inline constexpr std::size_t kFreeBufferBytes = 4096;

struct StoreConnection {
  using Clock = std::chrono::steady_clock;

  StoreConnection(boost::asio::ip::tcp::socket&& accepted, boost::asio::ip::tcp::endpoint from,
                  PeerId id, const StoreLimits& limits)
      : socket(std::move(accepted)), remote(std::move(from)), peer(id), parser(limits) {}

  // The memory of its buffers.
  std::size_t bytes() const { return unread.capacity() + replies.capacity() + parser.bytes(); }

  std::size_t unsent() const { return replies.size() - sent; }

  // Removes parsed bytes from the front of `unread`.
  void drop_unread(std::size_t size);

  // Sends as much as the socket accepts without blocking.  False if the connection has failed.
  bool send_replies();

  boost::asio::ip::tcp::socket socket;
  const boost::asio::ip::tcp::endpoint remote;
  const PeerId peer;
  StoreRequestParser parser;
  std::array<char, 512> first;  // Receive buffer, large enough for nearly all requests.
  std::string unread;           // Received, not yet parsed.
  std::string replies;          // To be sent …
  std::size_t sent = 0;         // … except these first bytes, which have been.
  std::size_t accounted = 0;    // The part of bytes() that the server has counted.

  bool flushing = false;  // Waits until the socket accepts more of `replies`.
  bool paused = false;    // Too many replies are unread: requests are not parsed.
  bool yielding = false;  // Its turn is over: its other requests wait.
  bool touched = false;   // Got replies in this turn.

  const Clock::time_point since = Clock::now();
  Clock::time_point last_at = since, wait_since = since;
  std::optional<RequestCode> last_request;
};

using StoreConnectionPtr = std::shared_ptr<StoreConnection>;

}  // namespace distrun
