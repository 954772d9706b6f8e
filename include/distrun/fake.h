// The backend "fake": one process acts as a rank of a group of any size, without other processes.
//
//     init_process_group({.backend = "fake", .rank = 0, .world_size = 1024});
//     train_one_step();                                   // As in the real run.
//     for (const WireTraffic& one : wire_traffic()) {     // Estimates what a real rank sends.
//       std::cout << one.operation << ": " << one.sent << " bytes\n";
//     }
//
// Use it to find out on one machine whether a program runs with many ranks, which shapes its
// tensors have, and how many bytes a step sends (examples/dry_run.cc).
//
// `distrun test --backend fake` runs tests with this backend (docs/testing.md).  The tests must
// list the backend "fake", and must not check values.
//
// Every operation returns at once.  This also applies to operations with `async_op`, to
// functional.h and to DistributedDataParallel.  An output depends only on the inputs of this rank.
// Its values are therefore wrong, but they are the same in each run:
//
//     broadcast, all_reduce, reduce, all_reduce_coalesced       the tensors do not change
//     all_gather and variants; gather on rank `dst`             each output is a copy of the input
//     reduce_scatter and variants; scatter on rank `src`        this rank's part of the input
//     scatter on other ranks; recv                              the output does not change
//     all_to_all, all_to_all_single      outputs[i] is a copy of inputs[i].  If their numbers of
//                                        elements differ: the values of inputs[i], repeated or cut;
//                                        zeros if inputs[i] is empty
//     send, barrier, monitored_barrier                          no output
//
// For recv() without `src`, the sender is the rank after this rank, or rank 0 if this rank is the
// last.  broadcast_bytes() from another rank returns the bytes of this rank.  Invalid arguments
// throw as with other backends.  Communication in an aborted group throws too.  Every Work has a
// future with the outputs.
//
// If neither InitOptions::store nor InitOptions::init_method is set, the group has a FakeStore and
// does not wait for other ranks, even if DISTRUN_INIT_METHOD is set.  If a launcher started the
// process, the group uses RANK and WORLD_SIZE, but the process does not connect to other processes.
// TORCH_DISTRIBUTED_DEBUG=DETAIL adds no checks.
//
// With "cpu:gloo,cuda:fake", ranks connect to each other for "gloo", and only operations on GPU
// tensors are faked.  Backend options are not supported then.  If the CPU has no backend, as in
// "cuda:fake", barriers use the backend of the first device.
//
// Limits:
//
//   - Ranks cannot exchange information: every other rank seems to send the data that this rank
//     sends.  In a group of two or more ranks, a ShardedTensor (sharded_tensor.h) treats this
//     rank's shards as the shards of all ranks.
//   - When a group is freed, wire_traffic_of_all_groups() loses the counts of the group.
//   - A loop that polls a FakeStore for a key never ends, because check() returns false for every
//     key and add(key, 0) returns 0.
//   - `distrun test --json` does not list collectives of this backend.
//   - Meta tensors are not supported, because LibTorch has no collectives for them.
//
// Thread safety: any thread, except while groups are created or destroyed.
// Cost: an operation copies its inputs into its outputs.  The backend starts no threads and opens
// no connections.
// PyTorch source: torch/testing/_internal/distributed/fake_pg.py.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "distrun/group.h"

namespace distrun {

// A store that stores nothing.  Only groups of the backend "fake" can use it.
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
  // Always throws, because the store has no values.
  //
  // Throws: c10::DistStoreError.
  std::vector<std::uint8_t> get(const std::string& key) override;
  // Returns `value`.
  std::int64_t add(const std::string& key, std::int64_t value) override;
  // Returns false.
  bool deleteKey(const std::string& key) override;
  // Returns false, or true if the list is empty.
  bool check(const std::vector<std::string>& keys) override;
  // Returns 0.
  std::int64_t getNumKeys() override;
  // Returns at once, even if the keys do not exist.
  void wait(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& timeout) override;
};

// The traffic of one operation on this rank, in bytes.
//
// `sent` and `received` are estimates for the algorithms of this table.  A real backend can use
// other algorithms (collectives.h has the costs of "gloo").  In the table, n is the number of ranks
// in the group, S is the size of the tensors in bytes, and the root is rank `src` or `dst`:
//
//     operation                                payload       sent
//     all_reduce, …_coalesced                  S             2 · (n - 1) / n · S, in a ring
//     all_gather, …_into_tensor, …_coalesced   S, the input  (n - 1) · S, in a ring
//     reduce_scatter, …_tensor, …_coalesced    S, the input  (n - 1) / n · S, in a ring
//     broadcast                                S             S; 0 on the rank before the root
//     reduce                                   S             S; 0 on the root
//     gather                                   S, the input  S; 0 on the root
//     scatter                                  S             (n - 1) / n · S; 0 on other ranks
//     all_to_all, all_to_all_single            S, the input  the parts for other ranks
//     send, recv                               S             S for send; 0 for recv
//     barrier, monitored_barrier               0             0
//
// A sparse tensor has the size of its indices and values.  In a scatter, S is the size of all
// inputs on the root, and the size of the output on other ranks.
//
// The rank after the last rank is rank 0.  In a broadcast, each rank sends to the rank after it,
// from the root to the rank before the root.  In a reduce, each rank also sends to the rank after
// it, from the rank after the root to the root.  An all_reduce consists of a reduce_scatter and an
// all_gather, and each of them rounds (n - 1) / n · S up to a whole byte.
//
// A rank receives as many bytes as it sends, except in operations with a root, in send and recv,
// and in an all_to_all with different sizes.  In a group of one rank, no bytes are sent.
struct WireTraffic {
  std::string operation;      // The function's name in collectives.h or point_to_point.h.
  std::int64_t calls = 0;     // The number of calls.
  std::int64_t payload = 0;   // Bytes in the tensors.
  std::int64_t sent = 0;      // Bytes sent to other ranks.
  std::int64_t received = 0;  // Bytes received from other ranks.

  friend bool operator==(const WireTraffic&, const WireTraffic&) = default;
};

// Returns the group's traffic since the group was created or its counts were reset.  The list has
// one entry for each operation, in the order of the first calls.  A call that threw does not count.
//
// Throws: c10::ValueError if the group has no "fake" backend.
std::vector<WireTraffic> wire_traffic(const Group& group = {});
// Sets the group's counts to 0.
//
// Throws: c10::ValueError if the group has no "fake" backend.
void reset_wire_traffic(const Group& group = {});

// Returns the sum of the traffic of all groups that have a "fake" backend and exist on this rank.
std::vector<WireTraffic> wire_traffic_of_all_groups();
// Sets the counts of these groups to 0.
void reset_wire_traffic_of_all_groups();

}  // namespace distrun
