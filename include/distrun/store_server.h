// StoreServer is the rendezvous point of a run: a small key-value store that
// workers reach over TCP, where a client may wait for keys that do not exist yet.
//
//     StoreTable table;
//     auto server = StoreServer::listen(io, table, {.host = "127.0.0.1"});
//     if (!server) return server.error();
//     environment.set("MASTER_PORT", std::to_string((*server)->port()));
//     io.run();
//
// It is all of the store that touches clients' sockets: request_parser.h turns bytes into
// requests, table.h says what a request means, and both are pure.
//
// Speaks the protocol of c10d's TCPStore: LibTorch's and Python's clients connect to
// it (`TCPStore(host, port, is_master=False)`).  Never looks up a client's name.
//
// Trust: there is no authentication.  Who can connect can read and change every key.  On
// loopback that is every user of the machine, unless `same_user` is set; at any other
// address, every machine that can reach it.
// A client that sends a malformed frame, goes beyond a limit (limits.h) or is another
// user's is *refused*: its connection is closed, and no other.
// Threads: every method runs on the thread of `io`; nothing here blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "distrun/result.h"
#include "store/status.h"
#include "store/table.h"

namespace distrun {

class StoreServer {
 public:
  struct Options {
    std::string host = "127.0.0.1";  // A numeric address, IPv4 or IPv6.  "::" takes both.
    std::uint16_t port = 0;          // 0: the kernel chooses.
    int listen_fd = -1;  // A TCP socket that listens already, instead of host and port; the
                         // server closes it, unless listen() fails.
    // Refuses clients that are not processes of the server's user, or root's, on this machine.
    bool same_user = false;
    // Told of each client that is refused: its address, and why.  Must not call the server.
    std::function<void(const std::string& address, const Error& reason)> on_refused;
    // Given the connections that begin with kNodeGreeting (request.h), with what has come behind
    // that byte.  They are the store's no more: start_over() and the end of the server leave
    // them.  Where it is not set, such a client is refused.
    std::function<void(boost::asio::ip::tcp::socket socket, std::string received)> on_node;
  };

  // Binds and starts to accept; the limits are the table's.  `io` and `table` must outlive the
  // server; the table need not outlive what `io` does after that.
  // Fails with kInvalidArgument for a malformed host or a descriptor that is no listening TCP
  // socket, kAddressInUse where another process listens there, which is named, kSystem
  // otherwise.
  static Result<std::unique_ptr<StoreServer>> listen(boost::asio::io_context& io, StoreTable& table,
                                                     const Options& options);

  // Closes every connection.  A client that waits sees its connection end, never
  // a made-up value.
  ~StoreServer();

  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  std::uint16_t port() const;   // The bound port, also where Options::port was 0.
  std::string address() const;  // "127.0.0.1:29500", "[::1]:29500".

  std::size_t connection_count() const;

  // Who is connected and who waits for what.
  StoreStatus status() const;

  // A new attempt begins, at the same port: closes every connection, those that wait to be
  // accepted too, and serves `fresh` to whoever connects from now on.  Requires that the clients
  // of the attempt before have ended.  `fresh` must outlive the server; the table before need not.
  void start_over(StoreTable& fresh);

 private:
  struct Impl;
  explicit StoreServer(std::shared_ptr<Impl> impl);
  // Shared with the handlers that `io` still holds when the server is gone.
  std::shared_ptr<Impl> impl_;
};

}  // namespace distrun
