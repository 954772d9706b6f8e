// StoreConnection is the state of one client: its socket, unparsed bytes, and unsent replies.
// StoreConnections makes all decisions.
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

// A connection's buffers may take this much even if the store is full.
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

  // Sends as much as the socket accepts without blocking. False if the connection has failed.
  bool send_replies();

  boost::asio::ip::tcp::socket socket;
  const boost::asio::ip::tcp::endpoint remote;
  const PeerId peer;
  StoreRequestParser parser;
  std::array<char, 512> first;  // Receive buffer, large enough for nearly all requests.
  std::string unread;           // Received, not yet parsed.
  std::string replies;          // To be sent …
  std::size_t sent = 0;         // … except these first bytes.
  std::size_t accounted = 0;    // The part of bytes() that is counted.

  bool flushing = false;  // Waits until the socket accepts more replies.
  bool paused = false;    // Too many unread replies: does not parse requests.
  bool yielding = false;  // Its turn is over: further requests wait.
  bool touched = false;   // Got replies in this turn.

  const Clock::time_point since = Clock::now();
  Clock::time_point last_at = since, wait_since = since;
  std::optional<RequestCode> last_request;
};

using StoreConnectionPtr = std::shared_ptr<StoreConnection>;

}  // namespace distrun
