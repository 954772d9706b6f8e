// LocalSockets finds the owner of a local TCP socket in the kernel's table: a client's socket, or
// the one that keeps a port in use.
//
//     auto sockets = LocalSockets::open();
//     if (!sockets) return sockets.error();           // not supported by the kernel
//     auto found = sockets->find(client_endpoint, server_endpoint);
//     if (!found) return found.error();
//     if (!*found) …                                  // not on this machine
//     const bool same_user = (*found)->uid == ::geteuid();
//
//     auto holders = sockets->in_the_way_of(endpoint);    // bind(): EADDRINUSE
//
// Sees only the caller's network namespace.  Does not block.  Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <boost/asio/ip/tcp.hpp>
#include <sys/types.h>

#include "common/os/unique_fd.h"
#include "distrun/result.h"

namespace distrun {

struct LocalSocket {
  uid_t uid;
  std::uint64_t inode;
};

class LocalSockets {
 public:
  // Opens a descriptor now, so that find() needs none. Fails with kSystem if the kernel has no
  // sock_diag(7).
  static Result<LocalSockets> open();

  // The socket bound to `own` and connected to `peer`, if a process still holds it. IPv4-mapped
  // addresses count as IPv4. Fails with kSystem.
  Result<std::optional<LocalSocket>> find(const boost::asio::ip::tcp::endpoint& own,
                                          const boost::asio::ip::tcp::endpoint& peer);

  // The sockets that prevent listening at `wanted`: listening ones whose address overlaps or, if
  // there are none, those of connections from that port. Does not find sockets that are only bound.
  // Fails with kSystem.
  Result<std::vector<LocalSocket>> in_the_way_of(const boost::asio::ip::tcp::endpoint& wanted);

 private:
  explicit LocalSockets(UniqueFd netlink) : netlink_(std::move(netlink)) {}

  UniqueFd netlink_;
  std::uint32_t questions_ = 0;
};

}  // namespace distrun
