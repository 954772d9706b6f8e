// With the backend "fake", one process acts as a rank of a group of any size.  The other ranks of
// the group do not exist.
//
//     init_process_group({.backend = "fake", .rank = 0, .world_size = 1024});
//     train_one_step();                                   // As in the real run.
//     for (const WireTraffic& one : wire_traffic()) {     // Estimates what a real rank sends.
//       std::cout << one.operation << ": " << one.sent << " bytes\n";
//     }
//
// Use "fake" to find out on one machine whether a program runs with many ranks, which shapes its
// tensors have, and how many bytes a step sends (examples/dry_run.cc).
//
// `distrun test --backend fake` runs tests with this backend (docs/testing.md).  The tests must
// list the backend "fake", and must not check values.
//
// Every operation returns at once, including the operations of functional.h and of
// DistributedDataParallel.  An output depends only on the inputs of this rank.  The values of
// outputs are therefore wrong, but they are the same in each run:
//
//     broadcast, all_reduce, reduce, all_reduce_coalesced       the tensors do not change
//     all_gather and variants; gather on rank `dst`             each output is a copy of the input
//     reduce_scatter and variants; scatter on rank `src`        this rank's part of the input
//     scatter on other ranks; recv                              the output does not change
//     all_to_all, all_to_all_single      outputs[i] is a copy of inputs[i].  If outputs[i] has
//                                        another number of elements, the values are repeated or
//                                        cut.  If inputs[i] is empty, outputs[i] gets zeros
//     send, barrier, monitored_barrier                          no output
//
// For recv() without `src`, the sender is the rank after this rank, or rank 0 if this rank is the
// last.  broadcast_bytes() from another rank returns the bytes of this rank.  With invalid
// arguments, an operation throws the same exceptions as with other backends.  Communication in an
// aborted group also throws.  Every Work has a future with the outputs.
//
// If neither InitOptions::store nor InitOptions::init_method is set, the group has a FakeStore, and
// the process does not connect to other processes.  This is also the case if DISTRUN_INIT_METHOD is
// set, or if a launcher started the process.  If InitOptions does not set `rank` and `world_size`,
// the group uses the variables RANK and WORLD_SIZE.  TORCH_DISTRIBUTED_DEBUG=DETAIL adds no checks.
//
// With "cpu:gloo,cuda:fake", ranks connect to each other.  Operations on CPU tensors use "gloo",
// and operations on GPU tensors use "fake".  Such a group does not support backend options.  If the
// CPU has no backend, as in "cuda:fake", barriers use the backend of the first device.
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
// Thread safety: any thread may call the functions, except while a thread creates or destroys
// groups.
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
  // Returns whether the list is empty, because no key exists.
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
// `sent` and `received` are estimates for the algorithms in this table.  A real backend can use
// other algorithms.  (For the costs of "gloo", see collectives.h.)  In the table, n is the number
// of ranks in the group, and S is the size of the tensors in bytes.  The root is rank `src` or rank
// `dst`:
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
// For a sparse tensor, S is the size of its indices and values.  In a scatter, S is the size of all
// inputs on the root, and the size of the output on other ranks.
//
// The rank after the last rank is rank 0.  In a broadcast and in a reduce, each rank sends to the
// rank after it.  A broadcast starts at the root, and ends at the rank before the root.  A reduce
// starts at the rank after the root, and ends at the root.  An all_reduce consists of a
// reduce_scatter and an all_gather.  Each of these two rounds (n - 1) / n · S up to a whole byte.
//
// A rank receives as many bytes as it sends.  The exceptions are operations with a root, send,
// recv, and an all_to_all with different sizes.  In a group of one rank, no bytes are sent.
struct WireTraffic {
  std::string operation;      // The function's name in collectives.h or point_to_point.h.
  std::int64_t calls = 0;     // The number of calls.
  std::int64_t payload = 0;   // The payload in the table.
  std::int64_t sent = 0;      // The bytes sent to other ranks.
  std::int64_t received = 0;  // The bytes received from other ranks.

  friend bool operator==(const WireTraffic&, const WireTraffic&) = default;
};

// Returns the group's traffic since the group was created or reset_wire_traffic() was called.  The
// list has one entry for each operation, in the order of the first calls.  Calls that throw are not
// counted.
//
// Throws: c10::ValueError if the group has no "fake" backend.
std::vector<WireTraffic> wire_traffic(const Group& group = {});
// Sets the group's counts to 0.
//
// Throws: c10::ValueError if the group has no "fake" backend.
void reset_wire_traffic(const Group& group = {});

// Returns the total traffic of all groups on this rank that have a "fake" backend.
std::vector<WireTraffic> wire_traffic_of_all_groups();
// Sets the counts of all these groups to 0.
void reset_wire_traffic_of_all_groups();

}  // namespace distrun
