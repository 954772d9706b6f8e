// StoreStatus is what a store knows of its clients: who is connected, who waits for
// what and since when, who gave up, whose connection was closed and why.  It answers
// the question of every hang at a rendezvous: who is missing?
//
// It travels as JSON, the answer to the request status; `distrun store status --json`
// prints it as it comes:
//
//     {"address": "127.0.0.1:29500", "up_s": 12.3, "keys": 7, "bytes": 1193,
//      "connections": 3, "waiting": 2, "refused": 0,
//      "peers": [{"address": "127.0.0.1:51234", "store_address": "127.0.0.1:29500",
//                 "connected_s": 12.1, "idle_s": 9.8, "last_request": "wait",
//                 "wait": {"keys": ["ready/3"], "keys_left": 1}}, …],
//      "gave_up": [{"address": …, "ago_s": 1.5, "waited_s": 30.0, "wait": {…}}, …],
//      "closed": [{"address": …, "ago_s": 3.1, "reason": "set with a value of …"}, …]}
//
// A wait in a barrier has "arrived" and "arrivals_wanted" too.  Keys are shortened, and
// bytes that are no UTF-8 replaced.  Durations are in seconds.
//
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "distrun/result.h"

namespace distrun {

// What a peer waits for.
struct StoreWait {
  std::vector<std::string> keys;  // Not all, where there are many: the first few that are missing.
  std::size_t keys_left = 0;      // How many are missing.
  // In a barrier: how many have come, of how many.
  std::int64_t arrived = 0, arrivals_wanted = 0;
};

struct StoreStatus {
  struct Peer {
    std::string address;        // "127.0.0.1:51234", "[::1]:51234".
    std::string store_address;  // At which of the store's addresses it connected.
    double connected_s = 0;
    double idle_s = 0;              // Since its last request, which may be a wait.
    std::string last_request;       // Its name; empty where it has made none.
    std::optional<StoreWait> wait;  // Then idle_s is how long it has waited.
  };
  struct GaveUp {  // A wait that its client ended, as clients do when their time-out is over, or
                   // that ended with its connection.
    std::string address;
    double ago_s = 0, waited_s = 0;
    StoreWait wait;
  };
  struct Closed {  // By the server, for a reason.
    std::string address;
    double ago_s = 0;
    std::string reason;
  };

  std::string address;  // Of the store.
  double up_s = 0;
  std::uint64_t keys = 0, bytes = 0;
  std::uint64_t connections = 0, waiting = 0;
  std::uint64_t refused = 0;    // Connections that it closed for a reason, ever.
  std::vector<Peer> peers;      // Those that wait first; not all, where there are many.
  std::vector<GaveUp> gave_up;  // The last few, latest first …
  std::vector<Closed> closed;   // … and likewise.
};

std::string to_json(const StoreStatus& status);

// Fails with kProtocol where `text` is not what to_json() makes.
Result<StoreStatus> store_status_from_json(std::string_view text);

}  // namespace distrun
