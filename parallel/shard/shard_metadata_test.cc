#include "distrun/shard_metadata.h"

#include <gtest/gtest.h>

namespace distrun {
namespace {

TEST(ParsePlacement, ParsesRankAndDevice) {
  const auto placement = parse_placement("rank:12/cuda:1");
  ASSERT_TRUE(placement);
  EXPECT_EQ(placement->rank, 12);
  EXPECT_EQ(placement->device, c10::Device("cuda:1"));
}
TEST(ParsePlacement, DefaultsToTheCpu) {
  const auto placement = parse_placement("rank:0");
  ASSERT_TRUE(placement);
  EXPECT_EQ(placement->device, c10::Device("cpu"));
}

TEST(ParsePlacement, QuotesAnInvalidPlacement) {
  const auto placement = parse_placement("cuda:1");
  ASSERT_FALSE(placement);
  EXPECT_EQ(placement.error().message,
            "'cuda:1' is not a placement; expected a rank and a device, as in rank:0/cpu or "
            "rank:1/cuda:1");
}

}  // namespace
}  // namespace distrun
