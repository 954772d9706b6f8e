// The TCP connections of ranks, with the bytes that are stuck in them.
//
//     const auto sockets = read_rank_sockets({{0, 4711}, {1, 4712}});     // rank, pid
//     connections_text(connection_lines(sockets), "  ")
//     //   connections
//     //     rank 1 has not read 80 bytes from rank 0
//     //     10.0.0.2:4432 has not received 2097152 bytes from rank 1
//     //     10.0.0.3:4711 has closed its connection to rank 0
//
// A peer is named by its rank if its process is one of the given ones and has the other end open.
// Other peers are named by their addresses.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
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

struct ConnectionLine {
  int rank = 0;  // One of its ends.
  std::string text;
};

// Without connections whose end at a rank is at port `left_out`: those that distrun itself opens.
// Empty if the kernel does not say. Does not block.
std::vector<RankSocket> read_rank_sockets(const std::vector<std::pair<int, pid_t>>& processes,
                                          std::optional<std::uint16_t> left_out = std::nullopt);

// Only connections with stuck bytes, or closed by one end, by rank and peer. Pure.
std::vector<ConnectionLine> connection_lines(const std::vector<RankSocket>& sockets);

// At most 16 lines, of all ranks or of one. Empty if there are none. Pure.
std::string connections_text(const std::vector<ConnectionLine>& lines, std::string_view indent,
                             std::optional<int> of_rank = std::nullopt);

}  // namespace distrun
