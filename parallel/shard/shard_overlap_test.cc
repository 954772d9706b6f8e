#include "parallel/shard/shard_overlap.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

namespace distrun {
namespace {

using internal::find_overlap;
using Overlap = std::optional<std::pair<std::size_t, std::size_t>>;

TEST(ShardOverlap, FindsNoneInNeighbours) {
  EXPECT_EQ(find_overlap({}), std::nullopt);
  EXPECT_EQ(find_overlap({{{0}, {5}, ""}}), std::nullopt);
  EXPECT_EQ(find_overlap({{{0}, {5}, ""}, {{5}, {5}, ""}}), std::nullopt);
  EXPECT_EQ(find_overlap({{{0, 5}, {5, 5}, ""}, {{0, 0}, {5, 5}, ""}}), std::nullopt);
}
TEST(ShardOverlap, FindsAShardWithinAnother) {
  EXPECT_EQ(find_overlap({{{2, 2}, {1, 1}, ""}, {{0, 0}, {5, 5}, ""}}), Overlap({0, 1}));
}
TEST(ShardOverlap, FindsTheSameShardTwice) {
  EXPECT_EQ(find_overlap({{{0, 0}, {2, 2}, ""}, {{2, 0}, {2, 2}, ""}, {{2, 0}, {2, 2}, ""}}),
            Overlap({1, 2}));
}
TEST(ShardOverlap, IgnoresEmptyShards) {
  EXPECT_EQ(find_overlap({{{0, 0}, {5, 5}, ""}, {{2, 2}, {0, 5}, ""}}), std::nullopt);
}
TEST(ShardOverlap, FindsASecondShardOfAScalar) {
  EXPECT_EQ(find_overlap({{{}, {}, ""}}), std::nullopt);
  EXPECT_EQ(find_overlap({{{}, {}, ""}, {{}, {}, ""}}), Overlap({0, 1}));
}

// Counts the shards that contain each element.
bool has_overlap(const std::vector<ShardMetadata>& shards) {
  for (std::int64_t x = 0; x < 12; ++x) {
    for (std::int64_t y = 0; y < 12; ++y) {
      const auto has = [&](const ShardMetadata& one) {
        return x >= one.shard_offsets[0] && x < one.shard_offsets[0] + one.shard_sizes[0] &&
               y >= one.shard_offsets[1] && y < one.shard_offsets[1] + one.shard_sizes[1];
      };
      if (std::ranges::count_if(shards, has) > 1) return true;
    }
  }
  return false;
}

TEST(ShardOverlap, AgreesWithCountingForRandomShards) {
  std::mt19937 random(1234);
  const auto below = [&](int end) {
    return std::int64_t{std::uniform_int_distribution(0, end)(random)};
  };
  int overlapping = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    std::vector<ShardMetadata> shards;
    for (int i = 0; i < 4; ++i) shards.push_back({{below(8), below(8)}, {below(4), below(4)}, ""});
    const auto found = find_overlap(shards);
    ASSERT_EQ(found.has_value(), has_overlap(shards)) << "trial " << trial;
    if (found) {
      ++overlapping;
      EXPECT_TRUE(has_overlap({shards[found->first], shards[found->second]})) << "trial " << trial;
    }
  }
  EXPECT_GT(overlapping, 100);
  EXPECT_LT(overlapping, 1900);
}

}  // namespace
}  // namespace distrun
