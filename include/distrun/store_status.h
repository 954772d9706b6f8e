// StoreStatus lists the clients of a store, the keys that each client waits for, the waits that
// timed out, and the connections that the server closed.  If a rendezvous hangs, the keys that the
// clients wait for usually show which rank is missing.
//
// `distrun store status --json` prints the status as the store sends it:
//
//     {"address": "127.0.0.1:29500", "up_s": 12.3, "keys": 7, "bytes": 1193,
//      "connections": 3, "waiting": 2, "refused": 0,
//      "peers": [{"address": "127.0.0.1:51234", "store_address": "127.0.0.1:29500",
//                 "connected_s": 12.1, "idle_s": 9.8, "last_request": "wait",
//                 "wait": {"keys": ["ready/3"], "keys_left": 1}}, …],
//      "gave_up": [{"address": …, "ago_s": 1.5, "waited_s": 30.0, "wait": {…}}, …],
//      "closed": [{"address": …, "ago_s": 3.1, "reason": "set with a value of …"}, …]}
//
// If a client waits in a barrier, its "wait" also has "arrived" and "arrivals_wanted".  The JSON
// has at most 200 bytes of each key.  Bytes that are not UTF-8 are replaced.  All times are in
// seconds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "distrun/result.h"

namespace distrun {

// The keys that one client waits for.
struct StoreWait {
  std::vector<std::string> keys;  // The first few keys that do not exist yet.
  std::size_t keys_left = 0;      // The number of all keys that do not exist yet.
  // In a barrier: the number of calls that have arrived, and the number of calls that must arrive.
  // Both are 0 in other waits.
  std::int64_t arrived = 0, arrivals_wanted = 0;
};

// The status of a store at one time.
struct StoreStatus {
  // A connected client.
  struct Peer {
    std::string address;            // Its address, such as "127.0.0.1:51234" or "[::1]:51234".
    std::string store_address;      // The address of the store to which it connected.
    double connected_s = 0;         // The time since it connected.
    double idle_s = 0;              // The time since its last request.
    std::string last_request;       // The name of its last request, if any.
    std::optional<StoreWait> wait;  // If set, the client has waited for idle_s seconds.
  };
  // A wait that timed out, or that ended because the connection ended.
  struct GaveUp {
    std::string address;  // The address of the client.
    // The time since the wait ended, and the time that the client waited.
    double ago_s = 0, waited_s = 0;
    StoreWait wait;  // The keys that the client waited for.
  };
  // A connection that the server closed because it refused the client.
  struct Closed {
    std::string address;  // The address of the client.
    double ago_s = 0;     // The time since the server closed the connection.
    std::string reason;   // Why the server closed the connection.
  };

  std::string address;  // The address at which the store listens.
  double up_s = 0;      // The time since the store started.
  // The number of keys, and the memory that StoreLimits::memory_bytes_max limits (store_limits.h).
  std::uint64_t keys = 0, bytes = 0;
  // The number of connected clients, and the number of clients that wait.
  std::uint64_t connections = 0, waiting = 0;
  std::uint64_t refused = 0;  // The number of clients that the server has refused since it started.
  // The connected clients, at most 1024.  Clients that wait come first.
  std::vector<Peer> peers;
  std::vector<GaveUp> gave_up;  // The last 16 of these waits, the latest first.
  std::vector<Closed> closed;   // The last 16 of these connections, the latest first.
};

// Returns the status as JSON.
std::string to_json(const StoreStatus& status);

// Parses the JSON of a status.  Fails with kProtocol if the text is not such JSON.
Result<StoreStatus> store_status_from_json(std::string_view text);

}  // namespace distrun
