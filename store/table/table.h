// StoreTable is what a store knows: keys and their values, queues, and the peers
// that wait.  It says what a request means; the server says where it came from.
//
//     StoreTable table;
//     auto applied = table.apply(peer, parser.request(), replies);
//     if (!applied) drop(peer, applied.error());
//     …
//     table.forget(peer);                            // the connection has ended
//
// A request may answer the peer that made it, peers that were waiting, both or
// none: replies go to the ReplySink, in the order in which they must leave.
//
// Behaviour is that of LibTorch's own server (TCPStoreLibUvBackend.cpp), also
// where it is odd: compare_set on a missing key answers the expected value, get
// on a missing key the empty value, a deleted key does not make a peer wait anew,
// add takes a value that merely begins with a number.  It differs where a client
// breaks the protocol: a wait that replaces one still open waits for its own keys
// only, and an add that overflows is refused.  It also differs where LibTorch's server
// counts wrongly: a push counts once for a peer that waits, and no more when that has
// ended; a queue that holds something is there, also in a wait for several keys.
//
// The request status is not the table's: it is about connections, which the server has.
//
// Pure: no sockets, no clock (a time-out is the client's, by cancel_wait).  Not
// thread-safe.
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

// A connection, by a number that is not used again.
using PeerId = std::uint64_t;

class ReplySink {
 public:
  virtual ~ReplySink() = default;

  // Where bytes for `peer` are appended.  The reference is good until the next call.
  virtual std::string& replies_to(PeerId peer) = 0;
};

class StoreTable {
 public:
  explicit StoreTable(const StoreLimits& limits = {}) : limits_(limits) {}

  const StoreLimits& limits() const { return limits_; }

  // Applies one request.  Fails with kProtocol where the request makes no sense (add
  // to a value that is no number) or its effect is beyond a limit; the peer's connection
  // should then be closed.
  Result<void> apply(PeerId peer, const StoreRequest& request, ReplySink& replies);

  // The peer is gone: it waits no more.
  void forget(PeerId peer);

  std::size_t key_count() const { return entries_.size(); }

  // What keys, values, queues and waits take in memory, about.  At most memory_bytes_max.
  std::size_t bytes() const { return bytes_; }

  // What else counts against memory_bytes_max, at present: the server's buffers.
  void set_taken_elsewhere(std::size_t bytes) { taken_elsewhere_ = bytes; }

  // Peers that wait for a key or in a barrier.
  std::size_t waiting_count() const { return awaited_.size(); }

  bool is_waiting(PeerId peer) const { return awaited_.contains(peer); }

  // Nothing where the peer does not wait.  Names at most `keys_max` keys; fewer where the missing
  // ones are hard to find among many that have come.
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
  boost::unordered_flat_set<StoreEntry, StoreEntryHash, StoreEntryEqual> entries_;
  ByKey<std::deque<std::string>> queues_;
  // Who waits for a key, first come first; and how many keys a peer still waits for.
  ByKey<std::vector<PeerId>> waiters_;
  struct Wait {
    std::size_t left = 0;
    std::vector<std::string> keys;  // All that it was for, also those that have come.
    std::int64_t barrier_of = 0;    // How many a barrier is to bring together.
  };
  boost::unordered_flat_map<PeerId, Wait> awaited_;
};

}  // namespace distrun
