// StoreServer is the rendezvous point of a run: a small key-value store that
// workers reach over TCP, where a client may wait for keys that do not exist yet.
//
//     auto server = StoreServer::listen(io, {.host = "127.0.0.1"});
//     if (!server) return server.error();
//     ::setenv("MASTER_PORT", std::to_string((*server)->port()).c_str(), 1);
//     io.run();
//
// It speaks the protocol of c10d's TCPStore: LibTorch's and Python's clients connect to
// it (`TCPStore(host, port, is_master=False)`).  It never looks up a client's name.
//
// Trust: there is no authentication.  Who can connect can read and change every key.  On
// loopback that is every user of the machine, unless `same_user` is set; at any other
// address, every machine that can reach it.
// A client that sends a malformed frame, goes beyond a limit or is another user's is
// *refused*: its connection is closed, and no other.
// Threads: every method runs on the thread of `io`; nothing here blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <boost/asio/io_context.hpp>

#include "distrun/result.h"
#include "distrun/store_limits.h"
#include "distrun/store_status.h"

namespace distrun {

class StoreServer {
 public:
  struct Options {
    std::string host = "127.0.0.1";  // A numeric address, IPv4 or IPv6.  "::" takes both.
    std::uint16_t port = 0;          // 0: the kernel chooses.
    // A TCP socket that listens already, instead of host and port; the server closes it, unless
    // listen() fails.
    std::optional<int> listen_fd = {};
    // Refuses clients that are not processes of the server's user, or root's, on this machine.
    bool same_user = false;
    StoreLimits limits;
    // Called for each client that is refused, with its address and the reason.  Must not call the
    // server.
    std::function<void(const std::string& address, const Error& reason)> on_refused;
  };

  // Binds and starts to accept, with an empty table.  `io` must outlive the server.
  // Fails with kInvalidArgument for a malformed host or a descriptor that is not a listening TCP
  // socket, kAddressInUse if another process listens there, which is named, kSystem otherwise.
  static Result<std::unique_ptr<StoreServer>> listen(boost::asio::io_context& io,
                                                     const Options& options);

  // Closes every connection.  A client that waits sees its connection end, never
  // a made-up value.
  ~StoreServer();

  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  std::uint16_t port() const;   // The bound port, also if Options::port was 0.
  std::string address() const;  // "127.0.0.1:29500", "[::1]:29500".

  std::size_t connection_count() const;

  // Who is connected and who waits for what.
  StoreStatus status() const;

  // Starts a new attempt at the same port: closes every connection, those in the kernel's queue
  // too, and serves an empty table to whoever connects from now on.  Requires that the clients of
  // the attempt before have ended.
  void start_over();

 private:
  friend struct StoreServerInternals;  // For distrun's launcher.
  struct Impl;
  explicit StoreServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace distrun
