#include "backends/shm/host/host_collectives.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <iterator>
#include <latch>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/shm/host/host_error.h"
#include "backends/shm/host/test/host_collectives_fixture.h"

namespace distrun::shm {
namespace {

using ::testing::Each;
using ::testing::StartsWith;

TEST_F(HostCollectivesTest, BroadcastCopiesTheRootsBytes) {
  with_all_sizes([](const Run& of) {
    for (int root = 0; root < of.ranks; root += std::max(of.ranks - 1, 1)) {
      of([&](Collectives& collectives, int rank, Watch& watch) {
        Bytes data = bytes_of_rank(rank, 0, of.bytes);
        collectives.broadcast(data.data(), data.size(), root, watch);
        EXPECT_EQ(data, bytes_of_rank(root, 0, of.bytes));
      });
    }
  });
}

// The other ranks begin only when the root has made all of its calls.
TEST_F(HostCollectivesTest, ABroadcastsRootMakesACallForEachCellButOneWithoutWaiting) {
  std::latch has_sent(1);
  const auto errors = run_as_ranks(3, [&](HostGroup& group, int rank) {
    if (rank != 0) has_sent.wait();
    for (int call = 0; call < static_cast<int>(kCells) - 1; ++call) {
      const std::size_t bytes = call % 2 == 0 ? kInlineBytes : kSmallBytes;
      Bytes data = bytes_of_rank(rank, call, bytes);
      group.run(in_time(), [&](Collectives& all, Watch& watch) {
        all.broadcast(data.data(), bytes, 0, watch);
      });
      EXPECT_EQ(data, bytes_of_rank(0, call, bytes)) << "call " << call;
    }
    has_sent.count_down(rank == 0 ? 1 : 0);
  });
  EXPECT_THAT(errors, Each(""));
}

TEST_F(HostCollectivesTest, BroadcastsOfRootsThatRunAheadArriveInOrder) {
  constexpr int kCalls = 10 * static_cast<int>(kCells);
  constexpr std::size_t kSizes[] = {0, 4, kInlineBytes, 100, kSmallBytes, kSmallBytes + 1};
  const auto errors = run_as_ranks(3, [&](HostGroup& group, int rank) {
    for (int call = 0; call < 3 * kCalls; ++call) {
      const int root = call / kCalls;
      const std::size_t bytes = kSizes[static_cast<std::size_t>(call / 5) % std::size(kSizes)];
      Bytes data = bytes_of_rank(rank, call, bytes);
      group.run(in_time(), [&](Collectives& all, Watch& watch) {
        all.broadcast(data.data(), bytes, root, watch);
      });
      ASSERT_EQ(data, bytes_of_rank(root, call, bytes)) << "call " << call;
    }
  });
  EXPECT_THAT(errors, Each(""));
}

TEST_F(HostCollectivesTest, AllReduceSumsOnAllRanks) {
  with_all_sizes([](const Run& of) {
    of([&](Collectives& collectives, int rank, Watch& watch) {
      Values data = values_of_rank(rank, of.count());
      collectives.all_reduce(bytes_in(data), of.count(), kSumOfInts, watch);
      EXPECT_EQ(data, sum_of_all(of.ranks, of.count()));
    });
  });
}

// Values of a rank in a block, at a place that is not the block's begin.
struct ValuesInBlock {
  static constexpr std::size_t kBefore = 3;  // Values.

  ValuesInBlock(HostGroup& group, int rank, std::size_t count)
      : block(group.blocks().allocate((count + kBefore) * sizeof(std::int32_t)).value()) {
    const Values values = values_of_rank(rank, count);
    std::memcpy(bytes(), values.data(), count * sizeof(std::int32_t));
  }
  std::byte* bytes() const { return block->data() + kBefore * sizeof(std::int32_t); }
  Values values(std::size_t count) const {
    Values all(count);
    std::memcpy(all.data(), bytes(), count * sizeof(std::int32_t));
    return all;
  }

  std::unique_ptr<SharedBlock> block;
};

TEST_F(HostCollectivesTest, AllReduceSumsDataInBlocks) {
  for (const int ranks : {1, 2, 3, 5}) {
    for (const std::size_t count : {300'000, 262'144, 1'000'003}) {
      const auto errors = run_as_ranks(ranks, [&](HostGroup& group, int rank) {
        const ValuesInBlock data(group, rank, count);
        group.run(in_time(), [&](Collectives& collectives, Watch& watch) {
          collectives.all_reduce(data.bytes(), count, kSumOfInts, watch);
          EXPECT_EQ(data.values(count), sum_of_all(ranks, count));
        });
      });
      EXPECT_THAT(errors, Each(""));
    }
  }
}

// So that the ranks agree on the way.
TEST_F(HostCollectivesTest, AllReduceSumsDataThatAreInABlockOnSomeRanksOnly) {
  constexpr std::size_t kCount = 500'000;
  const auto errors = run_as_ranks(3, [&](HostGroup& group, int rank) {
    const ValuesInBlock in_block(group, rank, kCount);
    Values outside = values_of_rank(rank, kCount);
    group.run(in_time(), [&](Collectives& collectives, Watch& watch) {
      collectives.all_reduce(rank == 1 ? bytes_in(outside) : in_block.bytes(), kCount, kSumOfInts,
                             watch);
      EXPECT_EQ(rank == 1 ? outside : in_block.values(kCount), sum_of_all(3, kCount));
    });
  });
  EXPECT_THAT(errors, Each(""));
}

// Rank 0 gives up while rank 1 reduces, and the program goes on with rank 0's data.
TEST_F(HostCollectivesTest, ARankThatFailsDuringAReductionInPlaceKeepsItsDataAndFailsTheOthers) {
  constexpr std::size_t kCount = 500'000;
  std::latch has_failed(1), is_over(1);
  const auto errors = run_as_ranks(2, [&](HostGroup& group, int rank) {
    const ValuesInBlock data(group, rank, kCount);
    const auto sum = [&](Collectives& collectives, Watch& watch) {
      collectives.all_reduce(data.bytes(), kCount, kSumOfInts, watch);
    };
    if (rank == 0) {
      EXPECT_THROW(group.run(std::chrono::steady_clock::now() + milliseconds(200), sum), HostError);
      std::memset(data.bytes(), 7, kCount * sizeof(std::int32_t));
      has_failed.count_down();
      is_over.wait();
      EXPECT_EQ(data.values(kCount), Values(kCount, 0x07070707));
      return;
    }
    std::string error;
    try {
      group.run(in_time(), [&](Collectives& collectives, Watch& watch) {
        Interrupted its(watch, [&] { has_failed.wait(); });
        sum(collectives, its);
      });
    } catch (const HostError& thrown) {
      error = thrown.what();
    }
    has_failed.wait();
    is_over.count_down();
    EXPECT_THAT(error, StartsWith("a call failed on rank 0: timed out"));
  });
  EXPECT_THAT(errors, Each(""));
}

TEST_F(HostCollectivesTest, ReduceSumsOnTheRootAndLeavesOthersAsTheyAre) {
  with_all_sizes([](const Run& of) {
    const int root = of.ranks - 1;
    of([&](Collectives& collectives, int rank, Watch& watch) {
      Values data = values_of_rank(rank, of.count());
      collectives.reduce(bytes_in(data), of.count(), kSumOfInts, root, watch);
      EXPECT_EQ(data,
                rank == root ? sum_of_all(of.ranks, of.count()) : values_of_rank(rank, of.count()));
    });
  });
}

TEST_F(HostCollectivesTest, GatherCopiesEachRanksBytesToTheRoot) {
  with_all_sizes([](const Run& of) {
    of([&](Collectives& collectives, int rank, Watch& watch) {
      const Bytes mine = bytes_of_rank(rank, 0, of.bytes);
      auto all = rank == 0 ? of.buffers() : std::vector<Bytes>();
      collectives.gather(mine.data(), addresses_of(all), of.bytes, 0, watch);
      for (std::size_t from = 0; from < all.size(); ++from) {
        EXPECT_EQ(all[from], bytes_of_rank(static_cast<int>(from), 0, of.bytes)) << from;
      }
    });
  });
}

TEST_F(HostCollectivesTest, ScatterGivesEachRankItsBytes) {
  with_all_sizes([](const Run& of) {
    of([&](Collectives& collectives, int rank, Watch& watch) {
      std::vector<Bytes> all;
      for (int to = 0; to < of.ranks && rank == 0; ++to)
        all.push_back(bytes_of_rank(0, to, of.bytes));
      Bytes mine(of.bytes);
      collectives.scatter(const_addresses_of(all), mine.data(), of.bytes, 0, watch);
      EXPECT_EQ(mine, bytes_of_rank(0, rank, of.bytes));
    });
  });
}

TEST_F(HostCollectivesTest, ReduceScatterGivesEachRankItsPartOfTheSum) {
  with_all_sizes([](const Run& of) {
    of([&](Collectives& collectives, int rank, Watch& watch) {
      // Rank r adds what values_of_rank(r) says to the part of rank 0, twice that to that of rank
      // 1, ….
      std::vector<Values> inputs;
      std::vector<const std::byte*> addresses;
      for (int to = 0; to < of.ranks; ++to) {
        Values one = values_of_rank(rank, of.count());
        for (std::int32_t& value : one) value *= to + 1;
        inputs.push_back(std::move(one));
        addresses.push_back(bytes_in(inputs.back()));
      }
      Values mine(of.count());
      collectives.reduce_scatter(addresses, bytes_in(mine), of.count(), kSumOfInts, watch);
      Values expected = sum_of_all(of.ranks, of.count());
      for (std::int32_t& value : expected) value *= rank + 1;
      EXPECT_EQ(mine, expected);
    });
  });
}

TEST(HostBarrierTest, ARankLeavesABarrierOnlyWhenAllHaveCome) {
  constexpr int kRanks = 4, kTimes = 200;
  std::atomic<int> arrived = 0;
  const auto errors = run_as_ranks(kRanks, [&](HostGroup& group, int) {
    for (int time = 1; time <= kTimes; ++time) {
      ++arrived;
      group.run(in_time(), [](Collectives& all, Watch& watch) { all.barrier(watch); });
      EXPECT_GE(arrived, time * kRanks);
    }
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(HostBarrierTest, ManyMoreRanksThanCpusMeetManyTimes) {
  const auto errors = run_as_ranks(12, [](HostGroup& group, int rank) {
    for (int time = 0; time < 300; ++time) {
      group.run(in_time(), [&](Collectives& all, Watch& watch) {
        std::int64_t sum = rank;
        all.all_reduce(reinterpret_cast<std::byte*>(&sum), 1, {Element::kInt64, Reduction::kSum},
                       watch);
        EXPECT_EQ(sum, 66);
      });
    }
  });
  EXPECT_THAT(errors, Each(""));
}

}  // namespace
}  // namespace distrun::shm
