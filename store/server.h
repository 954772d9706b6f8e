// StoreServer is the rendezvous point of a run: a small key-value store that
// workers reach over TCP, where a client may wait for keys that do not exist yet.
//
//     StoreTable table;
//     auto server = StoreServer::listen(io, table, {.host = "127.0.0.1"});
//     if (!server) return server.error();
//     environment.set("MASTER_PORT", std::to_string((*server)->port()));
//     io.run();
//
// Only this file and its source touch a socket: request_parser.h turns bytes into
// requests, table.h says what a request means, and both are pure.
//
// Speaks the protocol of c10d's TCPStore: LibTorch's and Python's clients connect to
// it (`TCPStore(host, port, is_master=False)`).  Never looks up a client's name.
//
// Trust: a client is a process of the same user; there is no authentication, so a
// host other than loopback lets every machine that can reach it take part.  A
// malformed frame closes the connection it came on and no other.
// Threads: every method runs on the thread of `io`; nothing here blocks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>

#include "common/result.h"
#include "common/units.h"
#include "store/request_parser.h"
#include "store/table.h"

namespace distrun {

class StoreServer {
 public:
  struct Options {
    std::string host = "127.0.0.1";  // A numeric address, IPv4 or IPv6.
    std::uint16_t port = 0;          // 0: the kernel chooses.
    StoreLimits limits;              // A request beyond them closes its connection.
    // Replies that a client has not read: beyond it, none of its requests is looked at until it
    // reads.  For a connection the server holds at most this and one reply more
    // (StoreLimits::reply_bytes_max), and one request.
    std::size_t reply_bytes_max = 16 * kMiB;
  };

  // Binds and starts to accept.  `io` and `table` must outlive the server; the table need not
  // outlive what `io` does after that.
  // Fails with kInvalidArgument for a malformed host, kAddressInUse where another
  // process listens there, kSystem otherwise.
  static Result<std::unique_ptr<StoreServer>> listen(boost::asio::io_context& io, StoreTable& table,
                                                     const Options& options);

  // Closes every connection.  A client that waits sees its connection end, never
  // a made-up value.
  ~StoreServer();

  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  std::uint16_t port() const;  // The bound port, also where Options::port was 0.

  std::size_t connection_count() const;

 private:
  struct Impl;
  explicit StoreServer(std::shared_ptr<Impl> impl);
  // Shared with the handlers that `io` still holds when the server is gone.
  std::shared_ptr<Impl> impl_;
};

}  // namespace distrun
