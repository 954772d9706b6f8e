// StoreServer is the store through which the ranks of a run find each other.  It is a small
// key-value store over TCP.  Clients can wait for keys that do not exist yet.
//
//     auto server = StoreServer::listen(io, {.host = "127.0.0.1"});
//     if (!server) return server.error();
//     ::setenv("MASTER_PORT", std::to_string((*server)->port()).c_str(), 1);
//     io.run();
//
// The server uses the protocol of c10d's TCPStore, so clients of LibTorch and of Python can connect
// to it (`TCPStore(host, port, is_master=False)`).  StoreClient (store_client.h) is a client that
// does not need LibTorch.  The keys are lost when the server is destroyed.
//
// Trust: clients do not authenticate.  A client that can connect can read and change every key.
// Every user of this machine can connect, unless Options::same_user is true.  If the server listens
// on an address other than loopback, every machine that can reach this address can connect too.
//
// The server refuses a client that sends a malformed request or exceeds a limit (store_limits.h).
// If `same_user` is true, the server also refuses clients that run as another user, except root.
// To refuse a client, the server closes the client's connection.  Other connections stay open.  A
// client that does not read its replies is not refused, but its requests wait.
//
// Blocks: no method blocks.
// Thread safety: call every method on the thread of `io`.
// Cost: no thread is started.  Each client takes one file descriptor and about 1 KiB of memory.
// Keys, values, partial requests and unread replies take additional memory.
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
    // An IPv4 or IPv6 address.  "::" means all IPv4 and IPv6 addresses of this machine.  The server
    // does not look up host names.
    std::string host = "127.0.0.1";
    std::uint16_t port = 0;  // The port.  0: the kernel chooses a port.
    // A listening TCP socket that the server uses instead of `host` and `port`.  The destructor of
    // the server closes this socket.  If listen() fails, the caller must close the socket.
    std::optional<int> listen_fd = {};
    // If true, the server refuses clients on other machines.  It also refuses clients of other
    // users, except root.
    bool same_user = false;
    // The limits for clients.
    StoreLimits limits;
    // The server calls this function for each refused client, with the client's address and the
    // reason.  The function must not call the server.
    std::function<void(const std::string& address, const Error& reason)> on_refused;
  };

  // Creates a server that listens and has no keys.  The server accepts clients while io.run() runs.
  // `io` must outlive the server.
  //
  // Fails with one of these errors:
  //
  //     kInvalidArgument    the host is malformed, or `listen_fd` is not a listening TCP socket
  //     kAddressInUse       another process uses the port.  The text names this process if it
  //                         belongs to this user
  //     kAddressNotLocal    the host is an address of another machine
  //     kSystem             any other error
  static Result<std::unique_ptr<StoreServer>> listen(boost::asio::io_context& io,
                                                     const Options& options);

  // Closes every connection.  Clients that wait get an error.
  ~StoreServer();

  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  std::uint16_t port() const;   // Returns the port, even if Options::port was 0.
  std::string address() const;  // Returns "127.0.0.1:29500" or "[::1]:29500".

  // Returns the number of connected clients.
  std::size_t connection_count() const;

  // Returns the connected clients and what they wait for.
  //
  // Cost: grows with the number of clients.
  StoreStatus status() const;

  // Deletes all keys and closes every connection, including connections that the server has not
  // accepted yet.  The server keeps its port.  Call start_over() before a new attempt of the run,
  // after all clients of the previous attempt have exited.  Otherwise, a client of the previous
  // attempt could connect again and change the keys of the new attempt.
  void start_over();

 private:
  friend struct StoreServerInternals;  // For distrun's launcher.
  struct Impl;
  explicit StoreServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace distrun
