// StoreTable is the content of a store: keys and values, queues, and waiting peers.  It defines
// what each request does; the server handles connections.
//
//     StoreTable table;
//     auto applied = table.apply(peer, parser.request(), replies);
//     if (!applied) drop(peer, applied.error());
//     …
//     table.forget(peer);                            // the connection has ended
//
// A request may produce replies to its own peer and to waiting peers. The ReplySink gets them in
// the order in which they must be sent.
//
// It behaves like LibTorch's server (TCPStoreLibUvBackend.cpp), including its oddities: compare_set
// on a missing key answers the expected value, get on a missing key the empty value; deleting a key
// does not make a peer wait again; add accepts a value that merely starts with a number.  It
// differs if a client breaks the protocol: a wait that replaces an open one waits for its own keys
// only, and an add that overflows is refused.  It also differs where LibTorch's server miscounts: a
// push counts once for a waiting peer, and not at all after its wait has ended; a queue with values
// counts as a key, also in a wait for several keys.
//
// The server answers status.  Pure: clients implement timeouts with cancel_wait.  Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>

#include "distrun/result.h"
#include "distrun/store_limits.h"
#include "distrun/store_status.h"
#include "store/protocol/request.h"
#include "store/table/entry.h"

namespace distrun {

// The number of a connection; never reused.
using PeerId = std::uint64_t;

class ReplySink {
 public:
  virtual ~ReplySink() = default;

  // The buffer for bytes to `peer`. Valid until the next call.
  virtual std::string& replies_to(PeerId peer) = 0;
};

class StoreTable {
 public:
  explicit StoreTable(const StoreLimits& limits = {}) : limits_(limits) {}

  const StoreLimits& limits() const { return limits_; }

  // Fails with kProtocol if the request is invalid (add to a value that is not a number) or would
  // exceed a limit; the caller should then close the peer's connection.
  Result<void> apply(PeerId peer, const StoreRequest& request, ReplySink& replies);

  // Ends the wait of `peer`, if any, without an answer.
  void forget(PeerId peer);

  std::size_t key_count() const { return entries_.size(); }

  // Approximate memory of keys, values, queues and waits. At most memory_bytes_max.
  std::size_t bytes() const { return bytes_; }

  // The server's buffers, which count against memory_bytes_max too.
  void set_taken_elsewhere(std::size_t bytes) { taken_elsewhere_ = bytes; }

  // How often a value has changed. torch reads counters with add() of 0, which changes none.
  std::uint64_t changes() const { return changes_; }

  // Peers that wait for a key or in a barrier.
  std::size_t waiting_count() const { return awaited_.size(); }

  bool is_waiting(PeerId peer) const { return awaited_.contains(peer); }

  // Empty if the peer does not wait. Names at most `keys_max` keys, fewer if missing ones are hard
  // to find among many.
  std::optional<StoreWait> wait_of(PeerId peer, std::size_t keys_max) const;

 private:
  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>{}(text);
    }
  };
  template <class Value>
  using ByKey = boost::unordered_flat_map<std::string, Value, TextHash, std::equal_to<>>;

  using Handler = Result<void> (StoreTable::*)(PeerId, const StoreRequest&, ReplySink&);
  static const Handler kHandlers[kRequestCount];

  Result<void> validate(PeerId, const StoreRequest&, ReplySink&);
  Result<void> set(PeerId, const StoreRequest&, ReplySink&);
  Result<void> compare_set(PeerId, const StoreRequest&, ReplySink&);
  Result<void> get(PeerId, const StoreRequest&, ReplySink&);
  Result<void> add(PeerId, const StoreRequest&, ReplySink&);
  Result<void> check(PeerId, const StoreRequest&, ReplySink&);
  Result<void> wait(PeerId, const StoreRequest&, ReplySink&);
  Result<void> get_num_keys(PeerId, const StoreRequest&, ReplySink&);
  Result<void> delete_key(PeerId, const StoreRequest&, ReplySink&);
  Result<void> append(PeerId, const StoreRequest&, ReplySink&);
  Result<void> multi_get(PeerId, const StoreRequest&, ReplySink&);
  Result<void> multi_set(PeerId, const StoreRequest&, ReplySink&);
  Result<void> cancel_wait(PeerId, const StoreRequest&, ReplySink&);
  Result<void> ping(PeerId, const StoreRequest&, ReplySink&);
  Result<void> queue_push(PeerId, const StoreRequest&, ReplySink&);
  Result<void> queue_pop(PeerId, const StoreRequest&, ReplySink&);
  Result<void> queue_len(PeerId, const StoreRequest&, ReplySink&);
  Result<void> list_keys(PeerId, const StoreRequest&, ReplySink&);
  Result<void> barrier(PeerId, const StoreRequest&, ReplySink&);
  Result<void> status(PeerId, const StoreRequest&, ReplySink&);

  bool is_there(std::string_view key) const;
  std::string_view value_of(std::string_view key) const;
  void put(std::string_view key, std::string_view value);
  Result<std::int64_t> increase(std::string_view key, std::int64_t by);
  void wait_for(PeerId peer, std::string_view key);
  void wake(std::string_view key, ReplySink& replies);
  void wake_first(std::string_view key, ReplySink& replies);
  bool arrived(PeerId peer, ReplySink& replies);
  bool has_room_for(std::size_t bytes) const;
  Error full(const StoreRequest& request) const;
  Error too_long(const StoreRequest& request, std::size_t size) const;

  StoreLimits limits_;
  std::size_t bytes_ = 0, taken_elsewhere_ = 0;
  std::uint64_t changes_ = 0;
  boost::unordered_flat_set<StoreEntry, StoreEntryHash, StoreEntryEqual> entries_;
  ByKey<std::deque<std::string>> queues_;
  // By key, the peers that wait for it, first come first; and each peer's wait.
  ByKey<std::vector<PeerId>> waiters_;
  struct Wait {
    std::size_t left = 0;           // Keys it still waits for.
    std::vector<std::string> keys;  // Includes keys that exist by now.
    std::int64_t barrier_of = 0;    // Number of peers of a barrier; 0 for a wait.
  };
  boost::unordered_flat_map<PeerId, Wait> awaited_;
};

}  // namespace distrun
