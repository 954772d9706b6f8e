// The backend "fake": one process stands for a rank of a world of any size, and nobody is met.
//
//     init_process_group({.backend = "fake", .rank = 0, .world_size = 1024});
//     train_one_step();                                   // as in the real run
//     for (const WireTraffic& one : wire_traffic()) {     // what would it have sent?
//       std::cout << one.operation << ": " << one.sent << " bytes\n";
//     }
//
// What it is for: to find out on one machine whether a program runs at all with so many ranks, what
// shapes its tensors have there, and what a step costs on the network (examples/dry_run.cc).
// `distrun test --backend fake` runs tests that way which do not look at values
// (docs/testing.md).
//
// Every collective, point-to-point and coalesced operation, synchronous or not, with gradients
// (distrun/functional.h) and in DistributedDataParallel, returns at once.  Its outputs hold what
// can be made of this rank's inputs:
//
//     broadcast, all_reduce, reduce, all_reduce_coalesced       the tensors stay as they are
//     all_gather and its kin; gather, on the root               each output is a copy of the input
//     reduce_scatter and its kin; scatter, on the root          this rank's part of the input
//     scatter, on the others; recv                              the output stays as it is
//     all_to_all, all_to_all_single      outputs[i] is inputs[i]; where they are of different sizes
//                                        its numbers, again and again, or zeros where it has none
//     send, barrier, monitored_barrier                          nothing
//
// So values are wrong, and the same in each run.  recv() from any rank says it was the next one.
// broadcast_bytes() from another rank gives this rank's own bytes.
//
// Arguments that make no sense are errors as ever; a group that was aborted refuses what comes
// after.  Works have a future with the outputs, and a sequence number.
//
// Without a store (InitOptions::store) and an init_method the group has a FakeStore, and nobody is
// waited for, whatever DISTRUN_INIT_METHOD says: started by a launcher, each rank stays alone, with
// its RANK of WORLD_SIZE.  TORCH_DISTRIBUTED_DEBUG=DETAIL adds no checks: there is nobody to
// compare with.  In "cpu:gloo,cuda:fake" the ranks meet for Gloo, and what is on GPUs is faked;
// there no options of a backend are possible, for each would be given the other's.  Where the CPU
// has no backend, as in "cuda:fake", barriers are those of the first device.
//
// What it cannot do:
//
//   - stand for ranks that tell each other what they have: each seems to say what this one says, so
//     that a ShardedTensor (distrun/sharded_tensor.h) in a world of two or more takes this rank's
//     shards for those of every rank;
//   - remember: what a group has sent is gone from the sum of all groups when the group is;
//   - end a poll: in a FakeStore check() is false and add(key, 0) is 0 for ever, so that code which
//     asks for a key until it is there never ends.  wait() does;
//   - be watched: `distrun test --json` lists none of its collectives;
//   - take meta tensors: LibTorch has no collectives for them.
//
// Threads: any for what is asked here, but not while groups are made or destroyed; collectives as
// everywhere.
// From torch/testing/_internal/distributed/fake_pg.py.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "distrun/group.h"

namespace distrun {

// A store in which nothing is kept and nobody is met: for "fake" alone.  What is set is dropped, so
// that to get a key, which would be waited for for ever, is a c10d::DistStoreError at once.  wait()
// and barrier() return, as if the others had been there; add() and compareSet() answer as to the
// first that comes.
//
// Threads: any.
class FakeStore : public c10d::Store {
 public:
  using c10d::Store::compareSet;
  using c10d::Store::set;

  c10::intrusive_ptr<c10d::Store> clone() override;
  void set(const std::string& key, const std::vector<std::uint8_t>& value) override;
  std::vector<std::uint8_t> compareSet(const std::string& key,
                                       const std::vector<std::uint8_t>& expected,
                                       const std::vector<std::uint8_t>& desired) override;
  std::vector<std::uint8_t> get(const std::string& key) override;
  std::int64_t add(const std::string& key, std::int64_t value) override;
  bool deleteKey(const std::string& key) override;
  bool check(const std::vector<std::string>& keys) override;
  std::int64_t getNumKeys() override;
  void wait(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& timeout) override;
};

// What the calls of one operation come to on this rank, in bytes.
//
// `sent` and `received` are what would pass between this rank and others, by a model of a network
// on which all ranks work at once.  With n ranks, and S bytes in the tensor or tensors:
//
//     operation                                payload       sent
//     all_reduce, …_coalesced                  S             2 · (n - 1) / n · S, in a ring
//     all_gather, …_into_tensor, …_coalesced   S, the input  (n - 1) · S, in a ring
//     reduce_scatter, …_tensor, …_coalesced    S, the input  (n - 1) / n · S, in a ring
//     broadcast                                S             S; 0 on the last, before the root
//     reduce                                   S             S; 0 on the root, where it ends
//     gather                                   S, the input  S; 0 on the root, which gets them
//     scatter                                  S             0; on the root what is not its own
//     all_to_all, all_to_all_single            S, the input  what is not for this rank itself
//     send, recv                               S             S, or 0
//     barrier, monitored_barrier               0             0
//
// (broadcast and reduce are passed on from rank to rank, as they come; the payload of a scatter is
// that of all inputs on its root, and of the output elsewhere.)
//
// A rank receives as much as it sends, but for what has a root, messages, and all_to_all of
// different sizes.  Where n does not divide S, each of the two parts of an all_reduce is rounded up
// to a whole byte.  A sparse tensor counts with its indices and values, as if these were dense.  A
// group of one sends nothing.
struct WireTraffic {
  std::string operation;  // As collectives.h and point_to_point.h call it.
  std::int64_t calls = 0;
  std::int64_t payload = 0;
  std::int64_t sent = 0;
  std::int64_t received = 0;

  friend bool operator==(const WireTraffic&, const WireTraffic&) = default;
};

// Of the group, since it was made or reset, in the order of the first calls.  An operation that was
// refused does not count.  Throws c10::ValueError where the group's backends are others.
std::vector<WireTraffic> wire_traffic(const Group& group = {});
void reset_wire_traffic(const Group& group = {});

// Of all "fake" groups that this rank is in and that are there, added up.
std::vector<WireTraffic> wire_traffic_of_all_groups();
void reset_wire_traffic_of_all_groups();

}  // namespace distrun
