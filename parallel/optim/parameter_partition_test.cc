#include "parallel/optim/parameter_partition.h"

#include <algorithm>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distrun::internal {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ParameterPartitionTest, OneRankHasEverything) {
  EXPECT_THAT(ParameterPartition(1).assign({3, 0, 7}), Each(0));
  EXPECT_THAT(ParameterPartition(1).assign({}), IsEmpty());
}

TEST(ParameterPartitionTest, AssignsTheLargestFirstToTheRankWithTheFewestElements) {
  EXPECT_THAT(ParameterPartition(2).assign({1, 10, 6, 5}), ElementsAre(0, 0, 1, 1));
}

TEST(ParameterPartitionTest, EqualSizesKeepTheirOrder) {
  EXPECT_THAT(ParameterPartition(3).assign({4, 4, 4, 4}), ElementsAre(0, 1, 2, 0));
}

TEST(ParameterPartitionTest, AParameterWithoutElementsGoesToTheFirstOfTheSmallestRanks) {
  EXPECT_THAT(ParameterPartition(2).assign({0, 0, 2}), ElementsAre(1, 1, 0));
}

TEST(ParameterPartitionTest, MoreRanksThanParametersLeaveRanksWithoutAny) {
  EXPECT_THAT(ParameterPartition(4).assign({1, 2}), ElementsAre(1, 0));
}

TEST(ParameterPartitionTest, ALaterGroupContinuesWhereTheEarlierEnded) {
  ParameterPartition partition(2);
  EXPECT_THAT(partition.assign({10, 4}), ElementsAre(0, 1));
  EXPECT_THAT(partition.assign({9, 1, 2}), ElementsAre(1, 0, 0));
}

TEST(ParameterPartitionTest, SharesDifferByAtMostTheLargestParameter) {
  std::vector<std::int64_t> sizes(100);
  std::iota(sizes.begin(), sizes.end(), 1);
  std::vector<std::int64_t> elements(7, 0);
  const std::vector<int> ranks = ParameterPartition(7).assign(sizes);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    elements[static_cast<std::size_t>(ranks[i])] += sizes[i];
  }
  EXPECT_LE(*std::max_element(elements.begin(), elements.end()) -
                *std::min_element(elements.begin(), elements.end()),
            100);
}

}  // namespace
}  // namespace distrun::internal
