// StoreServer hosts the rendezvous of a run: a small key-value store over TCP, in which clients can
// wait for keys that do not exist yet.
//
//     auto server = StoreServer::listen(io, {.host = "127.0.0.1"});
//     if (!server) return server.error();
//     ::setenv("MASTER_PORT", std::to_string((*server)->port()).c_str(), 1);
//     io.run();
//
// The server speaks the protocol of c10d's TCPStore: clients of LibTorch and of Python can connect
// to it (`TCPStore(host, port, is_master=False)`).  It never looks up host names.
//
// Trust: clients do not authenticate.  A client that can connect can read and change every key.
// Without `same_user`, every user of this machine can connect.  If the server listens on an address
// other than loopback, every machine that can reach this address can connect too.  The server
// refuses a client if the client sends a malformed request, if it exceeds a limit (store_limits.h),
// or, with `same_user`, if its user is neither the user of this process nor root.  Refusing a
// client closes its connection, and no other.  A client that does not read its replies is not
// refused: its requests wait.
//
// Blocks: no method blocks.
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
    // A listening TCP socket to use instead of `host` and `port`.  The server closes it when it is
    // destroyed.  If listen() fails, the caller must close it.
    std::optional<int> listen_fd = {};
    // Accept only clients on this machine that run as this user or as root.
    bool same_user = false;
    // The limits for clients.
    StoreLimits limits;
    // The server calls it for each refused client, with the client's address and the reason.  It
    // must not call the server.
    std::function<void(const std::string& address, const Error& reason)> on_refused;
  };

  // Listens and accepts clients, with an empty table of keys.  `io` must outlive the server.
  //
  // Fails with kInvalidArgument if the host is malformed or `listen_fd` is not a listening TCP
  // socket; with kAddressInUse if the port is taken; with kAddressNotLocal if the host is another
  // machine's address; otherwise with kSystem.  If the process that uses the port belongs to this
  // user, the text of kAddressInUse names this process.
  static Result<std::unique_ptr<StoreServer>> listen(boost::asio::io_context& io,
                                                     const Options& options);

  // Closes every connection.  Clients that wait get an error, because their connection ends.
  ~StoreServer();

  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  std::uint16_t port() const;   // Returns the port, also if Options::port was 0.
  std::string address() const;  // Returns "127.0.0.1:29500" or "[::1]:29500".

  // Returns the number of connected clients.
  std::size_t connection_count() const;

  // Returns the clients and what they wait for.
  StoreStatus status() const;

  // Starts a new attempt of the run, on the same port with an empty table.  Closes every
  // connection, including those in the kernel's queue.  Call it after all clients of the previous
  // attempt have exited: a client that still runs could connect again and change the new table.
  void start_over();

 private:
  friend struct StoreServerInternals;  // For distrun's launcher.
  struct Impl;
  explicit StoreServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace distrun
