// StoreServer hosts the rendezvous of a run: a small key-value store over TCP, in which clients can
// wait for keys that do not exist yet.
//
//     auto server = StoreServer::listen(io, {.host = "127.0.0.1"});
//     if (!server) return server.error();
//     ::setenv("MASTER_PORT", std::to_string((*server)->port()).c_str(), 1);
//     io.run();
//
// It speaks the protocol of c10d's TCPStore: LibTorch's and Python's clients can connect to it
// (`TCPStore(host, port, is_master=False)`).  It never looks up host names.
//
// Trust: clients do not authenticate.  A client that can connect can read and change every key.
// Without `same_user`, every user of the machine can connect, and at addresses other than loopback
// every machine that can reach the address.  The server refuses a client that sends a malformed
// frame, exceeds a limit or, with `same_user`, belongs to another user than this one and root: it
// closes only that client's connection.
//
// Blocks: nothing here does.
// Thread safety: call every method on the thread of `io`.
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
  // Options of listen().
  struct Options {
    std::string host = "127.0.0.1";  // A numeric address, IPv4 or IPv6.  "::" means both.
    std::uint16_t port = 0;          // 0: the kernel chooses.
    // A listening TCP socket to use instead of host and port.  The server closes it, unless
    // listen() fails.
    std::optional<int> listen_fd = {};
    // Accept only clients on this machine that run as this user or as root.
    bool same_user = false;
    // What clients may ask for.
    StoreLimits limits;
    // Called for each refused client, with its address and the reason.  It must not call the
    // server.
    std::function<void(const std::string& address, const Error& reason)> on_refused;
  };

  // Binds and accepts clients, with an empty table.  `io` must outlive the server.
  //
  // Fails with kInvalidArgument if the host is malformed, or the descriptor is not a listening TCP
  // socket; with kAddressInUse if the port is taken (the text names the process that listens there
  // if it belongs to this user); otherwise with kSystem.
  static Result<std::unique_ptr<StoreServer>> listen(boost::asio::io_context& io,
                                                     const Options& options);

  // Closes every connection.  Waiting clients see their connection end, never a made-up value.
  ~StoreServer();

  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  std::uint16_t port() const;   // Returns the bound port, also if Options::port was 0.
  std::string address() const;  // Returns "127.0.0.1:29500" or "[::1]:29500".

  // Returns the number of connected clients.
  std::size_t connection_count() const;

  // Returns the clients and what they wait for.
  StoreStatus status() const;

  // Starts a new attempt at the same port with an empty table.  Closes every connection, including
  // those in the kernel's queue.  Call it after all clients of the previous attempt have exited:
  // one that still runs could connect to the new table.
  void start_over();

 private:
  friend struct StoreServerInternals;  // For distrun's launcher.
  struct Impl;
  explicit StoreServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace distrun
