// StoreConnections serves the clients of a server: it reads requests, applies them to the table and
// writes the replies.
//
//     auto connections = std::make_shared<StoreConnections>(executor, own_endpoint, settings);
//     connections->add(std::move(socket), remote);
//
//     read ─▶ StoreRequestParser ─▶ StoreTable ─▶ replies of one or more clients ─▶ write
//
// Replies are sent immediately; the server waits for a socket only if it does not accept all bytes.
// A client that does not read its replies is not served until it does; one that asks for much
// yields to others (request_turn.h).
//
// Threads: the event loop's.  Pending handlers keep the object alive.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/unordered/unordered_flat_map.hpp>

#include "distrun/result.h"
#include "distrun/store_limits.h"
#include "distrun/store_status.h"
#include "store/server/store_connection.h"
#include "store/server/store_events.h"
#include "store/server/store_server_internals.h"
#include "store/table/table.h"

namespace distrun {

class StoreConnections final : public ReplySink,
                               public std::enable_shared_from_this<StoreConnections> {
 public:
  struct Settings {
    StoreLimits limits;
    StoreEvents::OnRefused on_refused;
    StoreServerInternals::TakeNode take_node;
    StoreServerInternals::CheckKey check_key;
  };

  // `own` is the address where the server listens.
  StoreConnections(boost::asio::any_io_executor executor, boost::asio::ip::tcp::endpoint own,
                   Settings settings);

  // Adds an admitted client.  Requires a non-blocking socket.
  void add(boost::asio::ip::tcp::socket socket, const boost::asio::ip::tcp::endpoint& remote);

  // For a client that was not admitted.
  void note_refused(const boost::asio::ip::tcp::endpoint& remote, const Error& reason) {
    events_.note_refused(remote, reason);
  }

  // Closes all connections and empties the table.
  void start_over();

  std::size_t count() const { return connections_.size(); }
  const StoreTable& table() const { return table_; }
  StoreStatus status() const;

 private:
  using Connection = StoreConnection;
  using ConnectionPtr = StoreConnectionPtr;

  void receive(const ConnectionPtr& connection);
  void received(const ConnectionPtr& connection, std::size_t size);
  bool is_node(const Connection& connection, std::string_view bytes) const;
  void process(const ConnectionPtr& connection);
  std::size_t apply(const ConnectionPtr& connection, std::string_view bytes);
  Result<void> apply_one(Connection& connection, const StoreRequest& request);
  Result<void> check_key(const Connection& connection, const StoreRequest& request);
  void after_requests(const ConnectionPtr& connection);
  void process_later(const ConnectionPtr& connection);

  std::string& replies_to(PeerId peer) override;
  void flush_touched();
  void flush(const ConnectionPtr& connection);
  void flush_when_ready(const ConnectionPtr& connection);
  bool has_too_many_replies(const Connection& connection) const;

  void refuse(Connection& connection, const Error& reason);
  void close(Connection& connection);
  void account(Connection& connection, std::size_t bytes);
  void note_gave_up(const Connection& connection);

  const boost::asio::any_io_executor executor_;
  const boost::asio::ip::tcp::endpoint own_;
  const StoreLimits limits_;
  const StoreServerInternals::TakeNode take_node_;
  StoreServerInternals::CheckKey check_key_;  // Empty: keys are not checked, or not any more.
  StoreEvents events_;
  StoreTable table_{limits_};
  boost::unordered_flat_map<PeerId, ConnectionPtr> connections_;
  std::vector<ConnectionPtr> touched_;  // Got replies in this turn.
  PeerId last_peer_ = 0;
  std::size_t buffered_ = 0;  // Memory of all connections' buffers.
  const std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
  // For input larger than a connection's `first`. Used by one connection at a time.
  std::array<char, 65'536> buffer_;
};

}  // namespace distrun
