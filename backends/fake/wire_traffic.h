// Estimates the bytes that a rank sends and receives in a collective, with a model of common
// algorithms. fake.h gives users the result. Pure.
//
//     const WireModel model(/*rank=*/3, /*size=*/8);
//     model.all_reduce(1024);                       // {.sent = 1792, .received = 1792}
//
// With n ranks, and S bytes:
//
//     all_reduce              a ring: reduce_scatter, then all_gather      2 · (n - 1) / n · S
//     all_gather              a ring of inputs of S                            (n - 1) · S
//     reduce_scatter          a ring of outputs of S                           (n - 1) · S
//     broadcast               along the ring from the root: the last rank sends nothing     S
//     reduce                  along the ring to the root: the first rank receives nothing   S
//     gather, scatter         between the root and each other rank, S for each
//
// all_reduce divides S among the ranks, and rounds (n - 1) / n · S up to a whole byte in each of
// its two steps.  A group of one sends nothing.
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

// For one rank of a group.  Requires 0 <= rank < size, the same for roots, and bytes >= 0.
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
  // The distance from the root to this rank in the ring.
  std::int64_t steps_from(int root) const { return (std::int64_t{rank_} - root + size_) % size_; }

  const int rank_;
  const int size_;
};

// The sums for each operation of a group.  Thread safety: any thread may call it.
class WireCount {
 public:
  void add(const char* operation, std::int64_t payload, const WireBytes& wire);
  void reset();
  // In the order of their first calls.
  std::vector<WireTraffic> list() const;

 private:
  mutable std::mutex mutex_;
  std::vector<WireTraffic> counts_;
};

// Adds `more` to the entry of its operation, or appends it.
void add_to(std::vector<WireTraffic>& counts, const WireTraffic& more);

}  // namespace distrun::internal
