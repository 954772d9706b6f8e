#include "backends/shm/host/patience.h"

#include <chrono>

#include <gtest/gtest.h>

namespace distrun::shm {
namespace {

constexpr std::chrono::nanoseconds kAlone(400), kWithOthers(5'000);

TEST(PatienceTest, LooksThenYields) {
  Patience patience({.looks = 2, .yields = 1});
  EXPECT_FALSE(patience.yields_next());
  patience.pause();
  patience.pause();
  EXPECT_TRUE(patience.yields_next());
  EXPECT_FALSE(patience.is_over());
  patience.pause();
  EXPECT_TRUE(patience.is_over());
}

TEST(PatienceTest, EndsAfterYieldsInWhichNobodyElseRan) {
  Patience patience({.looks = 0, .yields = 100, .idle_yields = 3});
  patience.yielded(kAlone);
  patience.yielded(kAlone);
  patience.yielded(kWithOthers);
  patience.yielded(kAlone);
  patience.yielded(kAlone);
  EXPECT_FALSE(patience.is_over());
  patience.yielded(kAlone);
  EXPECT_TRUE(patience.is_over());
}

TEST(PatienceTest, EndsAfterAllYields) {
  Patience patience({.looks = 0, .yields = 3, .idle_yields = 3});
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(patience.is_over()) << i;
    patience.yielded(kWithOthers);
  }
  EXPECT_TRUE(patience.is_over());
}

TEST(PatienceTest, RanksThatShareCpusLetEachOtherRunSoon) {
  const WaitPolicy own = wait_policy(2, 2), shared = wait_policy(3, 2);
  EXPECT_GT(own.looks, shared.looks);
  EXPECT_LT(shared.idle_yields, shared.yields);
}

}  // namespace
}  // namespace distrun::shm
