// The backend "fake": one process acts as a rank of a world of any size, without other ranks.
//
//     init_process_group({.backend = "fake", .rank = 0, .world_size = 1024});
//     train_one_step();                                   // As in the real run.
//     for (const WireTraffic& one : wire_traffic()) {     // Estimates what it would send.
//       std::cout << one.operation << ": " << one.sent << " bytes\n";
//     }
//
// Use it to find out on one machine whether a program runs with many ranks, which shapes its
// tensors have, and how much data a step sends (examples/dry_run.cc).  With `distrun test --backend
// fake` you can run tests that list this backend and do not check values (docs/testing.md).
//
// Every operation returns at once: collectives, point-to-point and coalesced operations, with and
// without `async_op`, with gradients (distrun/functional.h) and in DistributedDataParallel.
// Outputs depend only on this rank's inputs, so their values are wrong, but they are the same in
// each run:
//
//     broadcast, all_reduce, reduce, all_reduce_coalesced       the tensors do not change
//     all_gather and variants; gather, on the root              each output is a copy of the input
//     reduce_scatter and variants; scatter, on the root         this rank's part of the input
//     scatter, on other ranks; recv                             the output does not change
//     all_to_all, all_to_all_single      outputs[i] is a copy of inputs[i].  If their numbers of
//                                        elements differ: the values of inputs[i], repeated or cut;
//                                        zeros if inputs[i] is empty
//     send, barrier, monitored_barrier                          no output
//
// recv() without `src` returns, as the sender, the rank after this one; after the last rank comes
// rank 0.  broadcast_bytes() from another rank returns this rank's bytes.  Invalid arguments throw
// as with other backends, and so does any communication in an aborted group.  A Work has a sequence
// number and a future with the outputs.
//
// Without InitOptions::store and init_method, the group has a FakeStore and does not wait for other
// ranks, even if DISTRUN_INIT_METHOD is set.  A process that a launcher started then uses its RANK
// and WORLD_SIZE, but does not connect to other processes.  TORCH_DISTRIBUTED_DEBUG=DETAIL adds no
// checks.  With "cpu:gloo,cuda:fake", the ranks connect for Gloo, only operations on GPU tensors
// are faked, and backend options are not supported.  If the CPU has no backend, as in "cuda:fake",
// barriers use the backend of the first device.
//
// Limits:
//
//   - Ranks cannot exchange information: every other rank seems to send the data that this rank
//     sends.  With two or more ranks, a ShardedTensor (distrun/sharded_tensor.h) treats this rank's
//     shards as the shards of all ranks.
//   - When a group is freed, wire_traffic_of_all_groups() loses its counts.
//   - A loop that polls a FakeStore for a key never ends: check() of a key always returns false,
//     and add(key, 0) always returns 0.  wait() returns at once.
//   - `distrun test --json` does not list collectives of this backend.
//   - Meta tensors are not supported: LibTorch has no collectives for them.
//
// Thread safety: any thread may call the functions here, except while groups are created or
// destroyed.
// PyTorch source: torch/testing/_internal/distributed/fake_pg.py.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "distrun/group.h"

namespace distrun {

// A store that stores nothing.  Only the backend "fake" can use it.
class FakeStore : public c10d::Store {
 public:
  using c10d::Store::compareSet;
  using c10d::Store::set;

  // Returns this object.
  c10::intrusive_ptr<c10d::Store> clone() override;
  // Does nothing.
  void set(const std::string& key, const std::vector<std::uint8_t>& value) override;
  // Returns `desired` if `expected` is empty, and otherwise `expected`.
  std::vector<std::uint8_t> compareSet(const std::string& key,
                                       const std::vector<std::uint8_t>& expected,
                                       const std::vector<std::uint8_t>& desired) override;
  // Never returns a value.
  //
  // Throws: c10::DistStoreError at each call, because the store stores no values.
  std::vector<std::uint8_t> get(const std::string& key) override;
  // Returns `value`.
  std::int64_t add(const std::string& key, std::int64_t value) override;
  // Returns false.
  bool deleteKey(const std::string& key) override;
  // Returns false, or true if the list is empty.
  bool check(const std::vector<std::string>& keys) override;
  // Returns 0.
  std::int64_t getNumKeys() override;
  // Returns at once.
  void wait(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& timeout) override;
};

// The traffic of one operation on this rank, in bytes.
//
// `sent` and `received` are estimates.  They assume the algorithms of this table, with all ranks
// communicating at the same time.  The group has n ranks, and the tensors have S bytes:
//
//     operation                                payload       sent
//     all_reduce, …_coalesced                  S             2 · (n - 1) / n · S, in a ring
//     all_gather, …_into_tensor, …_coalesced   S, the input  (n - 1) · S, in a ring
//     reduce_scatter, …_tensor, …_coalesced    S, the input  (n - 1) / n · S, in a ring
//     broadcast                                S             S; 0 on the last rank of the chain
//     reduce                                   S             S; 0 on the root
//     gather                                   S, the input  S; 0 on the root
//     scatter                                  S             all but the root's part; 0 elsewhere
//     all_to_all, all_to_all_single            S, the input  all but this rank's own part
//     send, recv                               S             S for send, 0 for recv
//     barrier, monitored_barrier               0             0
//
// In a broadcast, data goes from the root to rank root+1, then to root+2 and so on; after the last
// rank comes rank 0.  Rank root-1, the end of the chain, sends nothing.  In a reduce, data goes the
// opposite way, and the root sends nothing.  In a scatter, S is the size of all inputs on the root,
// and the size of the output on other ranks.  A rank receives as much as it sends, except in
// operations that have a root, in point-to-point operations, and in an all_to_all in which sizes
// differ.  An all_reduce counts as a reduce_scatter and an all_gather.  In each, (n - 1) / n · S is
// rounded up to a whole byte.  A sparse tensor counts as its indices and values.  In a group of one
// rank, no bytes are sent.
struct WireTraffic {
  std::string operation;      // Its name in collectives.h or point_to_point.h.
  std::int64_t calls = 0;     // The number of calls.
  std::int64_t payload = 0;   // Bytes in the tensors.
  std::int64_t sent = 0;      // Bytes to other ranks.
  std::int64_t received = 0;  // Bytes from other ranks.

  friend bool operator==(const WireTraffic&, const WireTraffic&) = default;
};

// Returns the group's traffic since the group was created or its counts were reset, one entry for
// each operation, in the order of the first calls.  Operations that threw do not count.
//
// Throws: c10::ValueError if the group has no "fake" backend.
std::vector<WireTraffic> wire_traffic(const Group& group = {});
// Sets the group's counts to 0.
//
// Throws: c10::ValueError if the group has no "fake" backend.
void reset_wire_traffic(const Group& group = {});

// Returns the sum of the traffic of all groups of this backend that exist on this rank.
std::vector<WireTraffic> wire_traffic_of_all_groups();
// Sets the counts of these groups to 0.
void reset_wire_traffic_of_all_groups();

}  // namespace distrun
