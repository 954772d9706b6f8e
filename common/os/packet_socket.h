// Packets between two processes, each of some bytes and some descriptors, over a pair of connected
// sockets (SOCK_SEQPACKET): a packet comes whole or not at all.  It has a byte or a descriptor at
// least.
//
//     auto pair = make_packet_sockets();
//     send_packet(pair->first.get(), "hello", {STDOUT_FILENO});
//     auto packet = receive_packet(pair->second.get());
//     if (packet && packet->has_ended) … the other side is gone …
//
// Both calls block where the descriptor does.  One that does not fails with kTimedOut where it
// would have to wait.  A descriptor that is received is closed on exec.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/os/unique_fd.h"
#include "distrun/result.h"

namespace distrun {

inline constexpr std::size_t kPacketBytesMax = std::size_t{128} * 1024;
inline constexpr std::size_t kPacketDescriptorsMax = 64;

struct Packet {
  std::string bytes;
  std::vector<UniqueFd> descriptors;
  bool has_ended = false;  // There is none, and there will be none.
};

Result<std::pair<UniqueFd, UniqueFd>> make_packet_sockets();

// The descriptors stay the caller's.  Fails also where the other side is gone (kNotFound, no
// SIGPIPE), and where the user has too many descriptors under way (errno is ETOOMANYREFS).
Result<void> send_packet(int socket, const std::string& bytes, const std::vector<int>& descriptors);

// What has been sent is received also when who has sent it is gone.  Fails with kInvalidArgument
// for a packet that is larger than the bounds, with kSystem also where this process has no room for
// its descriptors.
Result<Packet> receive_packet(int socket);

}  // namespace distrun
