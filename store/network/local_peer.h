// Whose a TCP socket of this machine is: that of the client at the other end of a connection, or
// one that has a port which is wanted.  TCP does not say; the kernel's table of sockets does.
//
//     auto sockets = LocalSockets::open();
//     if (!sockets) return sockets.error();           // the kernel does not tell
//     auto found = sockets->find(client_endpoint, server_endpoint);
//     if (!found) return found.error();
//     if (!*found) …                                  // no socket of this machine
//     const bool same_user = (*found)->uid == ::geteuid();
//
//     auto holders = sockets->in_the_way_of(endpoint);    // bind() said EADDRINUSE
//
// Sees the network namespace of the caller only.  Does not block.  One thread at a time.
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
  // Holds a descriptor, so that find() needs none.  Fails with kSystem where the kernel has no
  // sock_diag(7).
  static Result<LocalSockets> open();

  // The socket bound to `own` and connected to `peer`, which a process still holds.  An IPv4
  // address written as IPv6 is taken as what it is.  Fails with kSystem.
  Result<std::optional<LocalSocket>> find(const boost::asio::ip::tcp::endpoint& own,
                                          const boost::asio::ip::tcp::endpoint& peer);

  // The sockets that keep one from listening at `wanted`: those that listen there, at every
  // address, or at any where `wanted` is every address; where there is none, those of connections
  // that have the port.  One that is bound and does not listen is not seen.  Fails with kSystem.
  Result<std::vector<LocalSocket>> in_the_way_of(const boost::asio::ip::tcp::endpoint& wanted);

 private:
  struct Found;
  Result<std::vector<Found>> with_port(std::uint16_t port, int family, std::uint32_t states);

  explicit LocalSockets(UniqueFd netlink) : netlink_(std::move(netlink)) {}

  UniqueFd netlink_;
  std::uint32_t questions_ = 0;
};

}  // namespace distrun
