#include "store/network/client_processes.h"

#include <cstdint>
#include <unordered_set>

#include <boost/asio/ip/tcp.hpp>

#include "distrun/store_address.h"
#include "store/network/local_peer.h"
#include "store/protocol/store_wait_text.h"

namespace distrun {

namespace {

std::optional<boost::asio::ip::tcp::endpoint> endpoint_of(const std::string& address) {
  const auto parsed = parse_store_address(address);
  if (!parsed) return std::nullopt;
  boost::system::error_code error;
  const auto ip = boost::asio::ip::make_address(parsed->host, error);
  if (error) return std::nullopt;
  return boost::asio::ip::tcp::endpoint(ip, parsed->port);
}

}  // namespace

PeerProcesses processes_of(const StoreStatus& status) {
  PeerProcesses processes;
  auto sockets = LocalSockets::open();
  if (!sockets) return processes;  // Then addresses are shown.
  std::unordered_map<std::string, std::uint64_t> inode_of;
  std::unordered_set<std::uint64_t> inodes;
  for (const auto& peer : status.peers) {
    const auto own = endpoint_of(peer.address), store = endpoint_of(peer.store_address);
    if (!own || !store) continue;
    const auto socket = sockets->find(*own, *store);
    if (!socket || !*socket) continue;
    inode_of[peer.address] = (*socket)->inode;
    inodes.insert((*socket)->inode);
  }
  const auto found = processes_of_sockets(inodes);
  for (const auto& [address, inode] : inode_of) {
    if (const auto process = found.find(inode); process != found.end()) {
      processes.emplace(address, process->second);
    }
  }
  return processes;
}

WaitsOfProcesses waits_of(StoreStatus status) {
  std::erase_if(status.peers, [](const auto& peer) { return !peer.wait; });
  WaitsOfProcesses waits;
  if (status.peers.empty()) return waits;
  const PeerProcesses processes = processes_of(status);
  for (const auto& peer : status.peers) {
    const auto found = processes.find(peer.address);
    if (found != processes.end()) waits.try_emplace(found->second.pid, text_of(*peer.wait));
  }
  return waits;
}

}  // namespace distrun
