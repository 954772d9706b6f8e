// For tests of the collectives of one host: data that every rank can compute, and collectives on
// many sizes.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/shm/host/host_collectives.h"
#include "backends/shm/host/test/threads_as_ranks.h"

namespace distrun::shm {

using Bytes = std::vector<std::byte>;
using Values = std::vector<std::int32_t>;
using std::chrono::milliseconds;

inline constexpr milliseconds kLong(60'000);
inline constexpr Reducing kSumOfInts{Element::kInt32, Reduction::kSum};

// Differs for each rank, receiver and place.
inline std::byte byte_at(int from, int to, std::size_t i) {
  return static_cast<std::byte>(static_cast<std::size_t>(from) * 7 +
                                static_cast<std::size_t>(to) * 31 + i + i / 251);
}

inline Bytes bytes_of_rank(int from, int to, std::size_t count) {
  Bytes all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = byte_at(from, to, i);
  return all;
}

inline Values values_of_rank(int rank, std::size_t count) {
  Values all(count);
  for (std::size_t i = 0; i < count; ++i) {
    all[i] = static_cast<std::int32_t>(i) * (rank + 1) + rank;
  }
  return all;
}

inline Values sum_of_all(int ranks, std::size_t count) {
  Values sum(count);
  for (int rank = 0; rank < ranks; ++rank) {
    const Values one = values_of_rank(rank, count);
    for (std::size_t i = 0; i < count; ++i) sum[i] += one[i];
  }
  return sum;
}

inline std::byte* bytes_in(Values& values) { return reinterpret_cast<std::byte*>(values.data()); }

inline std::vector<std::byte*> addresses_of(std::vector<Bytes>& buffers) {
  std::vector<std::byte*> all;
  all.reserve(buffers.size());
  for (Bytes& each : buffers) all.push_back(each.data());
  return all;
}

inline std::vector<const std::byte*> const_addresses_of(std::vector<Bytes>& buffers) {
  const auto all = addresses_of(buffers);
  return {all.begin(), all.end()};
}

struct RunSize {
  int ranks;
  std::size_t bytes;
};

// The sizes of a cell's bytes, of both kinds of slots and of a call that reduces at once, and their
// neighbours.
inline constexpr RunSize kRunSizes[] = {
    {1, 40},    {2, 0},      {2, 4},       {2, 24},     {2, 28},      {2, 4096}, {2, 4100},
    {2, 32768}, {2, 32772},  {2, 524288},  {2, 524292}, {2, 2097156}, {3, 0},    {3, 20},
    {3, 100},   {3, 524292}, {3, 2000000}, {5, 60},     {5, 1048580}, {8, 8},    {8, 100000}};

class HostCollectivesTest : public ::testing::Test {
 protected:
  using Call = std::function<void(Collectives&, int, Watch&)>;

  // A collective on `bytes` bytes of each rank.
  struct Run {
    int ranks;
    std::size_t bytes;

    std::size_t count() const { return bytes / sizeof(std::int32_t); }
    std::vector<Bytes> buffers() const {
      return std::vector<Bytes>(static_cast<std::size_t>(ranks), Bytes(bytes));
    }

    // Twice, because the second call finds what the first one left.
    void operator()(const Call& call) const {
      const auto errors = run_as_ranks(ranks, [&](HostGroup& group, int rank) {
        for (int time = 0; time < 2; ++time) {
          group.run(in_time(), [&](Collectives& collectives, Watch& watch) {
            call(collectives, rank, watch);
          });
        }
      });
      EXPECT_THAT(errors, ::testing::Each(""));
    }
  };

  static void with_all_sizes(const std::function<void(const Run&)>& act) {
    for (const RunSize& size : kRunSizes) {
      SCOPED_TRACE(std::to_string(size.ranks) + " ranks, " + std::to_string(size.bytes) + " bytes");
      act(Run{size.ranks, size.bytes});
    }
  }
};

// Does something when a collective first looks for failures: before it reduces in place, or after
// it has read from peers.
class Interrupted : public ForwardingWatch {
 public:
  Interrupted(Watch& watch, std::function<void()> act)
      : ForwardingWatch(watch), act_(std::move(act)) {}
  void check_failed() override {
    ForwardingWatch::check_failed();
    act();
  }
  void check_present() override {
    ForwardingWatch::check_present();
    act();
  }

 private:
  void act() {
    if (auto act = std::exchange(act_, nullptr)) act();
  }

  std::function<void()> act_;
};

}  // namespace distrun::shm
