// StoreStatus lists a store's clients: the connected clients, the keys that each client waits for,
// the waits that timed out, and the closed connections with the reason.  If a rendezvous hangs, the
// status shows which keys the clients wait for.  The missing keys usually tell which rank has not
// come.
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
// A wait in a barrier also has "arrived" and "arrivals_wanted".  Keys are shortened, and bytes that
// are not UTF-8 are replaced.  Durations are in seconds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "distrun/result.h"

namespace distrun {

// The keys that a client waits for.
struct StoreWait {
  std::vector<std::string> keys;  // The first few missing keys.
  std::size_t keys_left = 0;      // How many keys are missing.
  // In a barrier: how many clients have arrived, and how many must arrive.
  std::int64_t arrived = 0, arrivals_wanted = 0;
};

// The clients of a store.
struct StoreStatus {
  // A connected client.
  struct Peer {
    std::string address;            // "127.0.0.1:51234", "[::1]:51234".
    std::string store_address;      // The store's address to which it connected.
    double connected_s = 0;         // The time since it connected.
    double idle_s = 0;              // The time since its last request, which may be a wait.
    std::string last_request;       // The name of its last request; empty if none.
    std::optional<StoreWait> wait;  // If set, the client has waited for idle_s.
  };
  // A wait that timed out, or ended with its connection.
  struct GaveUp {
    std::string address;  // The client's address.
    // How long ago the wait ended, and how long the client had waited.
    double ago_s = 0, waited_s = 0;
    StoreWait wait;  // The keys that it waited for.
  };
  // A connection that the server closed.
  struct Closed {
    std::string address;  // The client's address.
    double ago_s = 0;     // How long ago the server closed it.
    std::string reason;   // Why the server closed it.
  };

  std::string address;  // The store's address.
  double up_s = 0;      // The time since the store started.
  // The number of keys, and the memory that counts for StoreLimits::memory_bytes_max
  // (store_limits.h).
  std::uint64_t keys = 0, bytes = 0;
  // The number of connected clients, and how many of them wait.
  std::uint64_t connections = 0, waiting = 0;
  std::uint64_t refused = 0;  // How many connections the server has closed since it started.
  // Waiting clients come first.  If there are more than 1024 clients, only the first 1024 are
  // listed.
  std::vector<Peer> peers;
  std::vector<GaveUp> gave_up;  // The last few such waits, the latest first.
  std::vector<Closed> closed;   // The last few such connections, the latest first.
};

// Returns the status as JSON.
std::string to_json(const StoreStatus& status);

// Parses the output of to_json().  Fails with kProtocol if the text is anything else.
Result<StoreStatus> store_status_from_json(std::string_view text);

}  // namespace distrun
