#include "common/text/rank_list.h"

#include <gtest/gtest.h>

namespace distrun {
namespace {

TEST(RankListTest, ThreeConsecutiveRanksAreARange) {
  EXPECT_EQ(list_of_ranks({3}), "rank 3");
  EXPECT_EQ(list_of_ranks({0, 1}), "ranks 0, 1");
  EXPECT_EQ(list_of_ranks({0, 1, 3}), "ranks 0, 1, 3");
  EXPECT_EQ(list_of_ranks({0, 1, 2}), "ranks 0-2");
  EXPECT_EQ(list_of_ranks({0, 2, 3, 4, 6, 8, 9}), "ranks 0, 2-4, 6, 8, 9");
}

}  // namespace
}  // namespace distrun
