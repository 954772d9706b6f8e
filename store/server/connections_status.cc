#include "store/server/connections_status.h"

#include <algorithm>
#include <vector>

#include "store/network/endpoint_text.h"

namespace distrun {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kPeersShown = 1024;

// Waiting clients first, then in the order of their connections.
std::vector<const StoreConnection*> in_order(
    const boost::unordered_flat_map<PeerId, StoreConnectionPtr>& connections,
    const StoreTable& table) {
  std::vector<const StoreConnection*> ordered;
  for (const auto& [peer, connection] : connections) ordered.push_back(connection.get());
  std::sort(ordered.begin(), ordered.end(),
            [&](const StoreConnection* a, const StoreConnection* b) {
              const bool a_waits = table.is_waiting(a->peer), b_waits = table.is_waiting(b->peer);
              return a_waits != b_waits ? a_waits : a->peer < b->peer;
            });
  return ordered;
}

StoreStatus::Peer peer_of(const StoreConnection& connection, const StoreTable& table,
                          Clock::time_point now) {
  const auto since = [now](Clock::time_point then) {
    return std::chrono::duration<double>(now - then).count();
  };
  boost::system::error_code ignored;
  StoreStatus::Peer peer;
  peer.address = text_of(connection.remote);
  peer.store_address = text_of(connection.socket.local_endpoint(ignored));
  peer.connected_s = since(connection.since);
  peer.wait = table.wait_of(connection.peer, kKeysShown);
  peer.idle_s = since(peer.wait ? connection.wait_since : connection.last_at);
  if (connection.last_request) peer.last_request = request_spec(*connection.last_request).name;
  return peer;
}

}  // namespace

StoreStatus status_of(const boost::unordered_flat_map<PeerId, StoreConnectionPtr>& connections,
                      const StoreTable& table, Clock::time_point now) {
  StoreStatus status;
  status.keys = table.key_count();
  status.bytes = table.bytes();
  status.connections = connections.size();
  status.waiting = table.waiting_count();
  auto shown = in_order(connections, table);
  if (shown.size() > kPeersShown) shown.resize(kPeersShown);
  for (const StoreConnection* connection : shown) {
    status.peers.push_back(peer_of(*connection, table, now));
  }
  return status;
}

}  // namespace distrun
