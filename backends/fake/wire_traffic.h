// What collectives would cost on a network: the bytes that one rank sends and receives, by a model
// of how they are usually done.  Pure arithmetic: no tensors, no groups.  Users read the result by
// fake.h.
//
//     const WireModel model(/*rank=*/3, /*size=*/8);
//     model.all_reduce(1024);                       // {.sent = 1792, .received = 1792}
//
// With n ranks, and S bytes:
//
//     all_reduce              a ring: reduce_scatter, then all_gather      2 · (n - 1) / n · S
//     all_gather              a ring of inputs of S                            (n - 1) · S
//     reduce_scatter          a ring of outputs of S                           (n - 1) · S
//     broadcast               passed on from the root, in a row: the last sends nothing     S
//     reduce                  passed on to the root: the first receives nothing             S
//     gather, scatter         between the root and each of the others, S for each
//
// all_reduce divides S among the ranks, and (n - 1) / n · S is rounded up to a whole byte in each
// of its two parts.  A group of one sends nothing.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "distrun/fake.h"

namespace distrun::internal {

struct WireBytes {
  std::int64_t sent = 0;
  std::int64_t received = 0;

  friend bool operator==(const WireBytes&, const WireBytes&) = default;
};

// Of one rank of a group.  Requires 0 <= rank < size, roots likewise, and bytes >= 0.
class WireModel {
 public:
  WireModel(int rank, int size) : rank_(rank), size_(size) {}

  WireBytes all_reduce(std::int64_t bytes) const;
  WireBytes all_gather(std::int64_t input) const;
  WireBytes reduce_scatter(std::int64_t output) const;
  WireBytes broadcast(std::int64_t bytes, int root) const;
  WireBytes reduce(std::int64_t bytes, int root) const;
  WireBytes gather(std::int64_t bytes_of_each, int root) const;
  WireBytes scatter(std::int64_t bytes_of_each, int root) const;

 private:
  // How many ranks the ring has between the root and this one.
  std::int64_t steps_from(int root) const { return (std::int64_t{rank_} - root + size_) % size_; }

  const int rank_;
  const int size_;
};

// Sums up what each operation of a group has cost.  Threads: any.
class WireCount {
 public:
  void add(const char* operation, std::int64_t payload, const WireBytes& wire);
  void reset();
  // In the order in which they were first called.
  std::vector<WireTraffic> list() const;

 private:
  mutable std::mutex mutex_;
  std::vector<WireTraffic> counts_;
};

// Adds `more` to what there is of its operation, or puts it to the end.
void add_to(std::vector<WireTraffic>& counts, const WireTraffic& more);

}  // namespace distrun::internal
