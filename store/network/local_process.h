// Which processes of this machine hold certain sockets, what they are called, and which ranks they
// are.
//
//     const auto processes = processes_of_sockets({socket.inode});
//     if (auto found = processes.find(socket.inode); found != processes.end()) … found->second.pid
//
// The inode of a client's socket is local_peer.h's to find.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include <sys/types.h>

namespace distrun {

struct LocalProcess {
  pid_t pid;
  std::optional<int> rank, world_size;  // Of its environment: RANK and WORLD_SIZE.
  std::string name;                     // As in /proc/PID/comm: any bytes.
};

// By inode.  Looks through /proc: those that may not be looked at, which are other users', are not
// in the answer.  A socket that several processes share is given to the one with the lowest pid.
std::unordered_map<std::uint64_t, LocalProcess> processes_of_sockets(
    const std::unordered_set<std::uint64_t>& inodes);

}  // namespace distrun
