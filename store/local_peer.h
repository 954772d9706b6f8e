// Who is at the other end of a TCP connection whose client runs on this machine.  TCP
// does not say; the kernel's table of sockets does.
//
//     auto sockets = LocalSockets::open();
//     if (!sockets) return sockets.error();           // the kernel does not tell
//     auto found = sockets->find(client_endpoint, server_endpoint);
//     if (!found) return found.error();
//     if (!*found) …                                  // no socket of this machine
//     const bool same_user = (*found)->uid == ::geteuid();
//
// Sees the network namespace of the caller only.  Does not block.  One thread at a time.
#pragma once

#include <cstdint>
#include <optional>

#include <boost/asio/ip/tcp.hpp>
#include <sys/types.h>

#include "common/result.h"
#include "common/unique_fd.h"

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

 private:
  explicit LocalSockets(UniqueFd netlink) : netlink_(std::move(netlink)) {}

  UniqueFd netlink_;
  std::uint32_t questions_ = 0;
};

}  // namespace distrun
