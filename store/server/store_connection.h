// StoreConnection is one client of a server: its socket, what has come from it and is not
// understood yet, and what it is still to be sent.
//
// It decides nothing: StoreConnections does, which has all of them.
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

// What a connection's buffers may take, however full the store is.
inline constexpr std::size_t kFreeBufferBytes = 4096;

struct StoreConnection {
  using Clock = std::chrono::steady_clock;

  StoreConnection(boost::asio::ip::tcp::socket&& accepted, boost::asio::ip::tcp::endpoint from,
                  PeerId id, const StoreLimits& limits)
      : socket(std::move(accepted)), remote(std::move(from)), peer(id), parser(limits) {}

  // What its buffers take in memory.
  std::size_t bytes() const { return unread.capacity() + replies.capacity() + parser.bytes(); }

  std::size_t unsent() const { return replies.size() - sent; }

  // The first bytes of `unread` have been understood.
  void drop_unread(std::size_t size);

  // Sends what the socket takes at once.  False if the connection has failed.
  bool send_replies();

  boost::asio::ip::tcp::socket socket;
  const boost::asio::ip::tcp::endpoint remote;
  const PeerId peer;
  StoreRequestParser parser;
  std::array<char, 512> first;  // What has just been received: nearly always all of it.
  std::string unread;           // Received, not yet understood.
  std::string replies;          // To be sent, but for …
  std::size_t sent = 0;         // … so many bytes, which have been.
  std::size_t accounted = 0;    // What of bytes() is in the server's account.

  bool flushing = false;  // Waits for the socket to take more of `replies`.
  bool paused = false;    // There are too many of them: no request is looked at.
  bool yielding = false;  // It has had its turn: its other requests wait for the next.
  bool touched = false;   // Got replies in this turn.

  const Clock::time_point since = Clock::now();
  Clock::time_point last_at = since, wait_since = since;
  std::optional<RequestCode> last_request;
};

using StoreConnectionPtr = std::shared_ptr<StoreConnection>;

}  // namespace distrun
