// Packets of bytes and descriptors between two processes, over connected sockets (SOCK_SEQPACKET).
// A packet arrives whole or not at all, and has at least a byte or a descriptor.
//
//     auto pair = make_packet_sockets();
//     send_packet(pair->first.get(), "hello", {STDOUT_FILENO});
//     auto packet = receive_packet(pair->second.get());
//     if (packet && packet->has_ended) … the peer has closed …
//
// Both calls block if the descriptor does; otherwise they fail with kTimedOut instead of waiting.
// Received descriptors are close-on-exec.
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
  bool has_ended = false;  // The peer has closed; not a packet.
};

Result<std::pair<UniqueFd, UniqueFd>> make_packet_sockets();

// The caller keeps the descriptors. Fails with kNotFound if the peer has closed (no SIGPIPE), and
// with ETOOMANYREFS in errno if too many of the user's descriptors are in flight.
Result<void> send_packet(int socket, const std::string& bytes, const std::vector<int>& descriptors);

// Also returns what was sent before the peer closed. Fails with kInvalidArgument if a packet is too
// large, and with kSystem if this process cannot hold its descriptors.
Result<Packet> receive_packet(int socket);

}  // namespace distrun
