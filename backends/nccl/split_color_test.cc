#include "backends/nccl/split_color.h"

#include <numeric>

#include <gtest/gtest.h>

namespace distrun::internal {
namespace {

// Values of `abs(hash(ranks)) % 2**31` in Python 3.
TEST(SplitColorTest, IsThatOfPython) {
  EXPECT_EQ(split_color({0}), 59908776);
  EXPECT_EQ(split_color({7}), 874688206);
  EXPECT_EQ(split_color({0, 1}), 2130503744);
  EXPECT_EQ(split_color({1, 3}), 1984952676);
  EXPECT_EQ(split_color({0, 2, 4, 6}), 2031181855);
  std::vector<int> ranks(64);
  std::iota(ranks.begin(), ranks.end(), 0);
  EXPECT_EQ(split_color(ranks), 2047566134);
}

}  // namespace
}  // namespace distrun::internal
