// The backend "fake": one process acts as a rank of a world of any size, without other ranks.
//
//     init_process_group({.backend = "fake", .rank = 0, .world_size = 1024});
//     train_one_step();                                   // As in the real run.
//     for (const WireTraffic& one : wire_traffic()) {     // What it would have sent.
//       std::cout << one.operation << ": " << one.sent << " bytes\n";
//     }
//
// Use it to find out on one machine whether a program runs with many ranks, which shapes its
// tensors have, and how much data a step sends (examples/dry_run.cc).
// `distrun test --backend fake` runs tests that do not check values (docs/testing.md).
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
//     all_to_all, all_to_all_single      outputs[i] is inputs[i]; if sizes differ, the input's
//                                        values repeated, or zeros if it has none
//     send, barrier, monitored_barrier                          nothing
//
// recv() from any rank reports the next rank as the sender.  broadcast_bytes() from another rank
// returns this rank's bytes.  Invalid arguments throw as with other backends, and so does any use
// of an aborted group.  A Work has a sequence number and a future with the outputs.
//
// Without InitOptions::store and init_method, the group has a FakeStore and does not wait for other
// ranks, even if DISTRUN_INIT_METHOD is set.  A process under a launcher then uses its RANK and
// WORLD_SIZE, but does not connect to other processes.  TORCH_DISTRIBUTED_DEBUG=DETAIL adds no
// checks.  With "cpu:gloo,cuda:fake" the ranks connect for Gloo, only GPU operations are faked, and
// backend options are not supported.  If the CPU has no backend, as in "cuda:fake", barriers use
// the backend of the first device.
//
// Limits:
//
//   - Ranks cannot exchange information: every other rank seems to send the data that this rank
//     sends.  With two or more ranks, a ShardedTensor (distrun/sharded_tensor.h) treats this rank's
//     shards as the shards of all ranks.
//   - The counts of bytes of all groups no longer include a group that was freed.
//   - A loop that polls a FakeStore for a key never ends: check() is always false and add(key, 0)
//     always 0.  wait() returns.
//   - `distrun test --json` does not list its collectives.
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

// A store that keeps nothing, for "fake" only.
class FakeStore : public c10d::Store {
 public:
  using c10d::Store::compareSet;
  using c10d::Store::set;

  // Returns this object.
  c10::intrusive_ptr<c10d::Store> clone() override;
  // Does nothing.
  void set(const std::string& key, const std::vector<std::uint8_t>& value) override;
  // Returns `desired` if `expected` is empty, else `expected`.
  std::vector<std::uint8_t> compareSet(const std::string& key,
                                       const std::vector<std::uint8_t>& expected,
                                       const std::vector<std::uint8_t>& desired) override;
  // Never returns a value.
  //
  // Throws: c10::DistStoreError, because no rank will ever set the key.
  std::vector<std::uint8_t> get(const std::string& key) override;
  // Returns `value`.
  std::int64_t add(const std::string& key, std::int64_t value) override;
  // Returns false.
  bool deleteKey(const std::string& key) override;
  // Returns true only for an empty list.
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
// `sent` and `received` follow a model in which all ranks communicate at once.  With n ranks, and S
// bytes in the tensors:
//
//     operation                                payload       sent
//     all_reduce, …_coalesced                  S             2 · (n - 1) / n · S, in a ring
//     all_gather, …_into_tensor, …_coalesced   S, the input  (n - 1) · S, in a ring
//     reduce_scatter, …_tensor, …_coalesced    S, the input  (n - 1) / n · S, in a ring
//     broadcast                                S             S; 0 on the last rank of the chain
//     reduce                                   S             S; 0 on the root
//     gather                                   S, the input  S; 0 on the root
//     scatter                                  S             on the root all but its own; else 0
//     all_to_all, all_to_all_single            S, the input  all but this rank's own part
//     send, recv                               S             S for send, 0 for recv
//     barrier, monitored_barrier               0             0
//
// In broadcast and reduce the ranks form a chain, from the root to the rank before it.  The payload
// of a scatter is that of all inputs on the root, and of the output elsewhere.  A rank receives as
// much as it sends, except with a root, in point-to-point operations, and in all_to_all of
// different sizes.  If n does not divide S, each of the two parts of an all_reduce is rounded up to
// a byte.  A sparse tensor counts as its indices and values.  A group of one sends nothing.
struct WireTraffic {
  std::string operation;      // Named as in collectives.h and point_to_point.h.
  std::int64_t calls = 0;     // The number of calls.
  std::int64_t payload = 0;   // Bytes in the tensors.
  std::int64_t sent = 0;      // Bytes to other ranks.
  std::int64_t received = 0;  // Bytes from other ranks.

  friend bool operator==(const WireTraffic&, const WireTraffic&) = default;
};

// Returns the group's traffic since it was created or reset, in the order of first calls.  Refused
// operations do not count.
//
// Throws: c10::ValueError if the group has no "fake" backend.
std::vector<WireTraffic> wire_traffic(const Group& group = {});
// Sets the group's counts to 0.
//
// Throws: c10::ValueError if the group has no "fake" backend.
void reset_wire_traffic(const Group& group = {});

// Returns the sum over all "fake" groups that exist on this rank.
std::vector<WireTraffic> wire_traffic_of_all_groups();
// Sets the counts of all groups to 0.
void reset_wire_traffic_of_all_groups();

}  // namespace distrun
