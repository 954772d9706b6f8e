#include "store/network/port_holder.h"

#include <unordered_set>

#include <fmt/format.h>

#include "common/text/printable.h"
#include "store/network/local_peer.h"
#include "store/network/local_process.h"

namespace distrun {

std::string port_holder(const boost::asio::ip::tcp::endpoint& wanted) {
  auto kernel = LocalSockets::open();
  if (!kernel) return "";
  const auto sockets = kernel->in_the_way_of(wanted);
  if (!sockets || sockets->empty()) return "";
  std::unordered_set<std::uint64_t> inodes;
  for (const LocalSocket& socket : *sockets) inodes.insert(socket.inode);
  const auto processes = processes_of_sockets(inodes);
  for (const LocalSocket& socket : *sockets) {
    const auto found = processes.find(socket.inode);
    if (found == processes.end()) continue;
    // The process chooses its name: at most 15 bytes, of any value.
    return fmt::format("{} (pid {})", printable(found->second.name, 64), found->second.pid);
  }
  return fmt::format("a process of uid {}", sockets->front().uid);
}

}  // namespace distrun
