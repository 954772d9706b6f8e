#include "testsuites/harness/run/rank_spread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distrun {
namespace {

using ::testing::ElementsAre;

TEST(RankSpreadTest, NodesGetBlocksOfAlmostEqualSize) {
  EXPECT_THAT(rank_spread(4, 2), ElementsAre(RankBlock{0, 2}, RankBlock{2, 2}));
  EXPECT_THAT(rank_spread(5, 3), ElementsAre(RankBlock{0, 2}, RankBlock{2, 2}, RankBlock{4, 1}));
}

TEST(RankSpreadTest, NodesWithoutARankAreLeftOut) {
  EXPECT_THAT(rank_spread(1, 2), ElementsAre(RankBlock{0, 1}));
  EXPECT_THAT(rank_spread(2, 4), ElementsAre(RankBlock{0, 1}, RankBlock{1, 1}));
}

TEST(RankSpreadTest, OneNodeGetsAllRanks) {
  EXPECT_THAT(rank_spread(16, 1), ElementsAre(RankBlock{0, 16}));
}

}  // namespace
}  // namespace distrun
