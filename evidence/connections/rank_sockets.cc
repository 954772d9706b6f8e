#include "evidence/connections/rank_sockets.h"

#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

#include <fmt/format.h>
#include <netinet/tcp.h>

#include "store/network/local_process.h"
#include "store/network/socket_table.h"

namespace distrun {

namespace {

std::string text_of(const boost::asio::ip::address& address, std::uint16_t port) {
  return fmt::format(fmt::runtime(address.is_v6() ? "[{}]:{}" : "{}:{}"), address.to_string(),
                     port);
}

std::string bytes_text(std::uint64_t bytes) {
  return fmt::format("{} byte{}", bytes, bytes == 1 ? "" : "s");
}

}  // namespace

std::vector<RankSocket> read_rank_sockets(const std::vector<std::pair<int, pid_t>>& processes) {
  std::unordered_map<std::uint64_t, int> ranks;  // By inode.
  for (const auto& [rank, pid] : processes) {
    for (const std::uint64_t inode : sockets_of(pid)) ranks.emplace(inode, rank);
  }
  if (ranks.empty()) return {};
  auto table = SocketTable::open();
  if (!table) return {};
  constexpr std::uint32_t kConnected = 1U << TCP_ESTABLISHED | 1U << TCP_CLOSE_WAIT;
  const auto rows = table->rows({.states = kConnected});
  if (!rows) return {};
  std::vector<RankSocket> sockets;
  for (const SocketRow& row : *rows) {
    const auto rank = ranks.find(row.inode);
    if (rank == ranks.end()) continue;
    const bool is_closed = row.state == TCP_CLOSE_WAIT;
    // The kernel counts the end of the peer's data as a byte.
    const std::uint32_t end = is_closed && row.unread > 0 ? 1 : 0;
    sockets.push_back({.rank = rank->second,
                       .address = text_of(row.address, row.port),
                       .peer = text_of(row.peer_address, row.peer_port),
                       .unread = row.unread - end,
                       .undelivered = row.undelivered,
                       .is_closed_by_peer = is_closed});
  }
  return sockets;
}

std::vector<std::string> connection_lines(const std::vector<RankSocket>& sockets,
                                          std::optional<int> of_rank) {
  std::map<std::pair<std::string, std::string>, int> ends;  // The rank, by its own and peer's end.
  for (const RankSocket& socket : sockets) ends[{socket.address, socket.peer}] = socket.rank;
  const auto peer_of = [&](const RankSocket& socket) {
    const auto other = ends.find({socket.peer, socket.address});
    return other == ends.end() ? socket.peer : fmt::format("rank {}", other->second);
  };
  // By rank and peer, because two ranks may have many connections.
  std::map<std::pair<int, std::string>, std::uint64_t> unread, undelivered;
  std::set<std::pair<int, std::string>> closed;
  for (const RankSocket& socket : sockets) {
    if (of_rank && socket.rank != *of_rank) continue;
    const std::pair key(socket.rank, peer_of(socket));
    if (socket.unread > 0) unread[key] += socket.unread;
    if (socket.undelivered > 0) undelivered[key] += socket.undelivered;
    if (socket.is_closed_by_peer) closed.insert(key);
  }
  std::vector<std::string> lines;
  lines.reserve(unread.size() + undelivered.size() + closed.size());
  for (const auto& [key, bytes] : unread) {
    lines.push_back(
        fmt::format("rank {} has not read {} from {}", key.first, bytes_text(bytes), key.second));
  }
  for (const auto& [key, bytes] : undelivered) {
    lines.push_back(fmt::format("{} has not received {} from rank {}", key.second,
                                bytes_text(bytes), key.first));
  }
  for (const auto& [rank, peer] : closed) {
    lines.push_back(fmt::format("{} has closed its connection to rank {}", peer, rank));
  }
  return lines;
}

}  // namespace distrun
