// Who is at the other end of a TCP connection whose client runs on this machine.  TCP
// does not say; the kernel's table of sockets does.
//
//     auto socket = find_local_socket(client_endpoint, server_endpoint);
//     if (!socket) return socket.error();             // the kernel did not answer
//     if (!*socket) …                                 // no socket of this machine
//     const bool same_user = (*socket)->uid == ::geteuid();
//
// Looks at the network namespace of the caller only.  Does not block.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include <boost/asio/ip/tcp.hpp>
#include <sys/types.h>

#include "common/result.h"

namespace distrun {

struct LocalSocket {
  uid_t uid;
  std::uint64_t inode;
};

// The socket bound to `own` and connected to `peer`.  An IPv4 address written as IPv6 is taken as
// what it is.  Asks the kernel by sock_diag(7); fails with kSystem where that is not to be had.
Result<std::optional<LocalSocket>> find_local_socket(const boost::asio::ip::tcp::endpoint& own,
                                                     const boost::asio::ip::tcp::endpoint& peer);

struct LocalProcess {
  pid_t pid;
  std::optional<int> rank, world_size;  // Of its environment: RANK and WORLD_SIZE.
};

// The processes that hold these sockets, by inode.  Looks through /proc: those that may not be
// looked at, which are other users', are not in the answer.  One that several processes share is
// given to the one with the lowest pid.
std::unordered_map<std::uint64_t, LocalProcess> processes_of_sockets(
    const std::unordered_set<std::uint64_t>& inodes);

}  // namespace distrun
