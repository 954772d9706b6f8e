#include "backends/shm/host/patience.h"

#include <gtest/gtest.h>

namespace distrun::shm {
namespace {

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

TEST(PatienceTest, ResetBeginsAgain) {
  Patience patience({.looks = 0, .yields = 1});
  patience.pause();
  EXPECT_TRUE(patience.is_over());
  patience.reset();
  EXPECT_FALSE(patience.is_over());
}

TEST(PatienceTest, RanksThatShareCpusLetEachOtherRunSoon) {
  const WaitPolicy own = wait_policy(2, 2), shared = wait_policy(3, 2), many = wait_policy(64, 2);
  EXPECT_GT(own.looks, shared.looks);
  EXPECT_GT(own.yields, shared.yields);
  EXPECT_GE(many.yields, 64 / 2);  // So that each of the others runs.
}

}  // namespace
}  // namespace distrun::shm
