#include "evidence/connections/rank_sockets.h"

#include <limits>
#include <map>
#include <tuple>
#include <unordered_map>

#include <fmt/format.h>
#include <netinet/tcp.h>

#include "store/network/local_process.h"
#include "store/network/socket_table.h"

namespace distrun {

namespace {

std::string text_of(const boost::asio::ip::address& address, std::uint16_t port) {
  const std::string host = address.to_string();
  return address.is_v6() ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

std::string bytes_text(std::uint64_t bytes) {
  return fmt::format("{} byte{}", bytes, bytes == 1 ? "" : "s");
}

// The other end of a connection. Ranks sort before addresses.
struct Peer {
  int rank = std::numeric_limits<int>::max();  // If it is one.
  std::string address;                         // Else.

  std::string name() const { return address.empty() ? fmt::format("rank {}", rank) : address; }
  bool operator<(const Peer& other) const {
    return std::tie(rank, address) < std::tie(other.rank, other.address);
  }
};

}  // namespace

std::vector<RankSocket> read_rank_sockets(const std::vector<std::pair<int, pid_t>>& processes,
                                          std::optional<std::uint16_t> left_out) {
  std::unordered_map<std::uint64_t, int> ranks;  // By inode.
  for (const auto& [rank, pid] : processes) {
    for (const std::uint64_t inode : sockets_of(pid)) ranks.emplace(inode, rank);
  }
  if (ranks.empty()) return {};
  auto table = SocketTable::open();
  if (!table) return {};
  constexpr std::uint32_t kConnected =
      1U << TCP_ESTABLISHED | 1U << TCP_CLOSE_WAIT | 1U << TCP_FIN_WAIT1 | 1U << TCP_FIN_WAIT2;
  const auto rows = table->rows({.states = kConnected});
  if (!rows) return {};
  std::vector<RankSocket> sockets;
  for (const SocketRow& row : *rows) {
    const auto rank = ranks.find(row.inode);
    if (rank == ranks.end() || row.port == left_out) continue;
    const bool is_closed = row.state == TCP_CLOSE_WAIT;
    // The kernel counts the end of the data as a byte.
    const std::uint32_t in = is_closed && row.unread > 0 ? 1 : 0;
    const std::uint32_t out = row.state == TCP_FIN_WAIT1 && row.undelivered > 0 ? 1 : 0;
    sockets.push_back({.rank = rank->second,
                       .address = text_of(row.address, row.port),
                       .peer = text_of(row.peer_address, row.peer_port),
                       .unread = row.unread - in,
                       .undelivered = row.undelivered - out,
                       .is_closed_by_peer = is_closed});
  }
  return sockets;
}

std::vector<ConnectionLine> connection_lines(const std::vector<RankSocket>& sockets) {
  std::map<std::pair<std::string_view, std::string_view>, int> ends;  // By own and peer's address.
  for (const RankSocket& socket : sockets) ends[{socket.address, socket.peer}] = socket.rank;
  struct Stuck {
    std::uint64_t unread = 0, undelivered = 0;
    bool is_closed = false;
  };
  // By rank and peer, because two ranks may have many connections.
  std::map<std::pair<int, Peer>, Stuck> connections;
  for (const RankSocket& socket : sockets) {
    if (socket.unread == 0 && socket.undelivered == 0 && !socket.is_closed_by_peer) continue;
    const auto other = ends.find({socket.peer, socket.address});
    const Peer peer = other == ends.end() ? Peer{.address = socket.peer}
                                          : Peer{.rank = other->second, .address = ""};
    Stuck& stuck = connections[{socket.rank, peer}];
    stuck.unread += socket.unread;
    stuck.undelivered += socket.undelivered;
    stuck.is_closed |= socket.is_closed_by_peer;
  }
  std::vector<ConnectionLine> lines;
  for (const auto& [key, stuck] : connections) {
    const int rank = key.first;
    const std::string peer = key.second.name();
    if (stuck.unread > 0) {
      lines.push_back({rank, fmt::format("rank {} has not read {} from {}", rank,
                                         bytes_text(stuck.unread), peer)});
    }
    if (stuck.undelivered > 0) {
      lines.push_back({rank, fmt::format("{} has not received {} from rank {}", peer,
                                         bytes_text(stuck.undelivered), rank)});
    }
    if (stuck.is_closed) {
      lines.push_back({rank, fmt::format("{} has closed its connection to rank {}", peer, rank)});
    }
  }
  return lines;
}

std::string connections_text(const std::vector<ConnectionLine>& lines, std::string_view indent,
                             std::optional<int> of_rank) {
  constexpr int kShown = 16;
  std::string text;
  int count = 0;
  for (const ConnectionLine& line : lines) {
    if (of_rank && line.rank != *of_rank) continue;
    if (++count == 1) text += fmt::format("{}connections\n", indent);
    if (count <= kShown) text += fmt::format("{}  {}\n", indent, line.text);
  }
  if (count > kShown) text += fmt::format("{}  {} more\n", indent, count - kShown);
  return text;
}

}  // namespace distrun
