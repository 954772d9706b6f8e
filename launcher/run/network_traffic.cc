#include "launcher/run/network_traffic.h"

#include <unordered_set>
#include <utility>

#include <netinet/tcp.h>

#include "store/network/local_process.h"

namespace distrun {

Result<NetworkTraffic> NetworkTraffic::open() {
  auto table = SocketTable::open();
  if (!table) return table.error();
  if (const auto rows = table->rows({}); !rows) return rows.error();
  return NetworkTraffic(std::move(*table));
}

std::uint64_t NetworkTraffic::bytes(const std::vector<pid_t>& processes,
                                    std::uint16_t without_port) {
  std::unordered_set<std::uint64_t> inodes;
  for (const pid_t pid : processes) inodes.merge(sockets_of(pid));
  constexpr std::uint32_t kOpen =
      1U << TCP_ESTABLISHED | 1U << TCP_FIN_WAIT1 | 1U << TCP_FIN_WAIT2 | 1U << TCP_CLOSE_WAIT;
  const auto rows = table_.rows({.states = kOpen, .bytes = true});
  if (!rows) return last_;
  std::uint64_t bytes = 0;
  for (const SocketRow& row : *rows) {
    if (row.port == without_port || row.peer_port == without_port) continue;
    if (inodes.contains(row.inode)) bytes += row.bytes;
  }
  last_ = bytes;
  return bytes;
}

}  // namespace distrun
