// Finds the local processes that hold given sockets, with their names and ranks.
//
//     const auto processes = processes_of_sockets({socket.inode});
//     const auto found = processes.find(socket.inode);
//     if (found != processes.end()) … found->second.pid
//
// local_peer.h finds the inode of a client's socket.
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
  std::optional<int> rank, world_size;  // From RANK and WORLD_SIZE in its environment.
  std::string name;                     // /proc/PID/comm: any bytes.
};

// The inodes of a process's sockets; empty if it has ended or belongs to another user.
std::unordered_set<std::uint64_t> sockets_of(pid_t pid);

// By inode. Omits processes of other users, whose /proc files are not readable. If processes share
// a socket, returns the lowest pid.
std::unordered_map<std::uint64_t, LocalProcess> processes_of_sockets(
    const std::unordered_set<std::uint64_t>& inodes);

}  // namespace distrun
