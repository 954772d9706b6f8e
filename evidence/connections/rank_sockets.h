// The TCP connections of ranks, with the bytes that are stuck in them.
//
//     auto sockets = read_rank_sockets({{0, 4711}, {1, 4712}});     // rank, pid
//     connection_lines(sockets)
//     // {"rank 1 has not read 80 bytes from rank 0",
//     //  "10.0.0.2:4432 has not received 2097152 bytes from rank 1",
//     //  "rank 2 has closed its connection to rank 0"}
//
// Connections between ranks of this machine name both ranks. The others name an address.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace distrun {

struct RankSocket {
  int rank = 0;
  std::string address, peer;       // "127.0.0.1:4711", "[::1]:4711"
  std::uint32_t unread = 0;        // Bytes that the kernel has received and the rank has not read.
  std::uint32_t undelivered = 0;   // Bytes that the rank has sent and the peer's kernel lacks.
  bool is_closed_by_peer = false;  // And the rank has not closed its end.
};

// Empty if the kernel does not tell. Does not block.
std::vector<RankSocket> read_rank_sockets(const std::vector<std::pair<int, pid_t>>& processes);

// Only connections with stuck bytes, or closed by one end. Sorted. With `of_rank`, only those that
// this rank has. Pure.
std::vector<std::string> connection_lines(const std::vector<RankSocket>& sockets,
                                          std::optional<int> of_rank = std::nullopt);

}  // namespace distrun
