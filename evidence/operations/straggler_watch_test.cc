#include "evidence/operations/straggler_watch.h"

#include <functional>
#include <random>

#include <gtest/gtest.h>

namespace distrun {
namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;

// Ranks that work, and then meet in a collective that takes 100 µs.
class Ranks {
 public:
  explicit Ranks(int size) : size_(size) {}

  // `work` gives the time of a rank.
  std::optional<Straggler> step(const std::function<microseconds(int)>& work) {
    CollectiveOfRanks all;
    OperationTime last = OperationTime::min();
    for (int rank = 0; rank < size_; ++rank) {
      const OperationTime began = now_ + work(rank);
      last = std::max(last, began);
      all.by_rank[rank] = {.op = "all_reduce", .group = "0", .sequence = 1, .began = began};
      if (rank >= first_of_node_1) {
        all.by_rank[rank].node = 1;
        all.by_rank[rank].clock_error = clock_error;
      }
    }
    now_ = last + microseconds(100);
    for (auto& [rank, operation] : all.by_rank) operation.ended = now_;
    return watch_.add(all);
  }

  int first_of_node_1 = 1000;
  nanoseconds clock_error{0};

 private:
  const int size_;
  OperationTime now_{};
  StragglerWatch watch_;
};

// How many of `steps` it takes to find rank `straggler`; nullopt if none is found.
std::optional<int> steps_until_found(Ranks& ranks, int steps, int straggler,
                                     const std::function<microseconds(int)>& work) {
  for (int i = 1; i <= steps; ++i) {
    const auto found = ranks.step(work);
    if (!found) continue;
    EXPECT_EQ(found->rank, straggler);
    return i;
  }
  return std::nullopt;
}

TEST(StragglerWatchTest, FindsARankThatIsTenPercentSlower) {
  std::mt19937 random(1);
  std::normal_distribution<double> noise(0, 150);  // 1.5 %
  Ranks ranks(4);
  const auto found = steps_until_found(ranks, 30, 2, [&](int rank) {
    return microseconds(static_cast<int>((rank == 2 ? 11'000 : 10'000) + noise(random)));
  });
  ASSERT_TRUE(found);
  EXPECT_LE(*found, 20);
}

// Ranks 2 and 3 are on another node.
std::optional<Straggler> straggler_of_two_nodes(int slow_rank, microseconds clock_error) {
  Ranks ranks(4);
  ranks.first_of_node_1 = 2;
  ranks.clock_error = clock_error;
  for (int i = 0; i < 20; ++i) {
    const auto found = ranks.step([&](int rank) {
      return microseconds(rank == slow_rank ? 12'000 : rank == 3 ? 10'500 : 10'000);
    });
    if (found) return found;
  }
  return std::nullopt;
}

TEST(StragglerWatchTest, TheErrorOfAClockReducesTheLatenessBetweenNodes) {
  const auto found = straggler_of_two_nodes(1, microseconds(700));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, 1);
  EXPECT_EQ(found->lateness, microseconds(800));
  EXPECT_FALSE(straggler_of_two_nodes(1, microseconds(1500)));
}

TEST(StragglerWatchTest, TheErrorOfAClockDoesNotMatterWithinANode) {
  const auto found = straggler_of_two_nodes(2, microseconds(1500));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, 2);
  EXPECT_EQ(found->lateness, microseconds(1500));
}

TEST(StragglerWatchTest, SaysByHowMuch) {
  Ranks ranks(2);
  std::optional<Straggler> found;
  for (int i = 0; i < 20 && !found; ++i) {
    found = ranks.step([](int rank) { return microseconds(rank == 1 ? 11'000 : 10'000); });
  }
  ASSERT_TRUE(found);
  EXPECT_EQ(found->times_last, 18);
  EXPECT_EQ(found->lateness, nanoseconds(1'000'000));
  EXPECT_NEAR(found->share, 1.0 / 11, 1e-9);
  EXPECT_EQ(text_of(*found),
            "rank 1 delays the others: it entered 18 of 18 collectives last, 1.0 ms late (9 % of "
            "each step)");
}

TEST(StragglerWatchTest, FindsNoneInEvenSteps) {
  for (const int size : {2, 4, 16}) {
    std::mt19937 random(static_cast<unsigned>(size));
    std::normal_distribution<double> noise(0, 200);
    Ranks ranks(size);
    for (int i = 0; i < 10'000; ++i) {
      EXPECT_FALSE(ranks.step([&](int) {
        return microseconds(10'000 + static_cast<int>(noise(random)));
      })) << size
          << " ranks, step " << i;
    }
  }
}

TEST(StragglerWatchTest, FindsNoneInUnevenStepsOfAllRanks) {
  std::mt19937 random(7);
  std::exponential_distribution<double> uneven(1.0 / 5000);
  Ranks ranks(4);
  for (int i = 0; i < 10'000; ++i) {
    EXPECT_FALSE(
        ranks.step([&](int) { return microseconds(5000 + static_cast<int>(uneven(random))); }));
  }
}

TEST(StragglerWatchTest, OnePauseIsNoStraggler) {
  Ranks ranks(3);
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(ranks.step([&](int rank) {
      const int noise = (i * 7 + rank * 13) % 50;  // Each rank is the last now and then.
      return microseconds(10'000 + noise + (rank == 1 && i == 50 ? 5'000'000 : 0));
    }));
  }
}

TEST(StragglerWatchTest, AlwaysTheLastByLittleIsNoStraggler) {
  Ranks ranks(3);
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(ranks.step([](int rank) { return microseconds(10'000 + rank * 100); }));
  }
}

TEST(StragglerWatchTest, AlwaysTheLastInVeryShortStepsIsNoStraggler) {
  Ranks ranks(2);
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(ranks.step([](int rank) { return microseconds(rank == 1 ? 400 : 100); }));
  }
}

TEST(StragglerWatchTest, LatenessIsAtMostTheStep) {
  Ranks ranks(2);
  std::optional<Straggler> found;
  for (int i = 0; i < 20 && !found; ++i) {
    // Rank 0 enters before rank 1 has left the previous collective.
    found = ranks.step([](int rank) { return microseconds(rank == 1 ? 2'000 : -5'000); });
  }
  ASSERT_TRUE(found);
  EXPECT_EQ(found->lateness, microseconds(2'000));
  EXPECT_EQ(found->share, 1);
}

TEST(StragglerWatchTest, CollectivesThatFollowAtOnceDoNotHideIt) {
  Ranks ranks(3);
  std::mt19937 random(3);
  std::optional<Straggler> found;
  for (int i = 0; i < 25 && !found; ++i) {
    found = ranks.step([](int rank) { return microseconds(rank == 0 ? 11'000 : 10'000); });
    for (int more = 0; more < 3; ++more) {
      EXPECT_FALSE(ranks.step([&](int) { return microseconds(random() % 50); }));
    }
  }
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, 0);
}

TEST(StragglerWatchTest, IsReportedOnce) {
  Ranks ranks(2);
  int found = 0;
  const auto steps = [&](int count, int slow) {
    for (int i = 0; i < count; ++i) {
      const auto one =
          ranks.step([&](int rank) { return microseconds(rank == slow ? 12'000 : 10'000); });
      found += one ? 1 : 0;
    }
  };
  steps(100, 1);
  EXPECT_EQ(found, 1);
  steps(100, 0);
  EXPECT_EQ(found, 2);
  steps(100, 1);
  EXPECT_EQ(found, 2);
}

// As if it had to wait for a core: this may happen to each rank for a while.
TEST(StragglerWatchTest, DelaysThatDifferMuchMustLastLonger) {
  Ranks ranks(2);
  const auto steps = [&](int count, int slow) {
    int number = 0;
    return steps_until_found(ranks, count, slow, [&](int rank) {
      return microseconds(10'000 + (rank == slow ? 1'000 + ++number % 4 * 2'000 : 0));
    });
  };
  EXPECT_FALSE(steps(25, 1));
  EXPECT_FALSE(steps(25, 0));
  EXPECT_TRUE(steps(40, 1));
}

}  // namespace
}  // namespace distrun
