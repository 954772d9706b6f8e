// The part of a store's status about its clients and its table.
#pragma once

#include <chrono>
#include <cstddef>

#include <boost/unordered/unordered_flat_map.hpp>

#include "distrun/store_status.h"
#include "store/server/store_connection.h"
#include "store/table/table.h"

namespace distrun {

inline constexpr std::size_t kKeysShown = 16;  // Per wait.

// Fills in keys, bytes (without the server's buffers), connections, waiting and peers.
StoreStatus status_of(const boost::unordered_flat_map<PeerId, StoreConnectionPtr>& connections,
                      const StoreTable& table, std::chrono::steady_clock::time_point now);

}  // namespace distrun
