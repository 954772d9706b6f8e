#include "parallel/fsdp/flat_layout.h"

#include <gtest/gtest.h>

namespace distrun::internal {
namespace {

TEST(FlatLayoutTest, ParametersBeginAtMultiplesOf16) {
  const FlatLayout layout({{3, 4}, {3}, {}, {0, 5}, {17}}, 1);
  EXPECT_EQ(layout.count(), 5);
  EXPECT_EQ(layout.offset(0), 0);
  EXPECT_EQ(layout.offset(1), 16);
  EXPECT_EQ(layout.offset(2), 32);
  EXPECT_EQ(layout.numel(2), 1);  // A scalar.
  EXPECT_EQ(layout.numel(3), 0);
  EXPECT_EQ(layout.offset(3), 48);
  EXPECT_EQ(layout.offset(4), 48);
  EXPECT_EQ(layout.total(), 80);
  EXPECT_EQ(layout.shard_size(), 80);
}

TEST(FlatLayoutTest, AParameterCanLieInTwoShards) {
  const FlatLayout layout({{5, 10}, {3}}, 2);  // 64 + 16 elements.
  EXPECT_EQ(layout.shard_size(), 48);
  EXPECT_EQ(layout.total(), 96);
  EXPECT_EQ(layout.range_of(0, 0), (ShardRange{.in_parameter = 0, .in_shard = 0, .size = 48}));
  EXPECT_EQ(layout.range_of(0, 1), (ShardRange{.in_parameter = 48, .in_shard = 0, .size = 2}));
  EXPECT_EQ(layout.range_of(1, 0), ShardRange());
  EXPECT_EQ(layout.range_of(1, 1), (ShardRange{.in_parameter = 0, .in_shard = 16, .size = 3}));
}

TEST(FlatLayoutTest, EachElementIsInOneShard) {
  for (const int ranks : {1, 2, 3, 4, 7, 64}) {
    SCOPED_TRACE(ranks);
    const FlatLayout layout({{7, 9}, {1}, {33}, {2, 3, 4}}, ranks);
    for (std::size_t i = 0; i < layout.count(); ++i) {
      std::int64_t next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const ShardRange range = layout.range_of(i, rank);
        if (range.size == 0) continue;
        EXPECT_EQ(range.in_parameter, next);
        EXPECT_LE(range.in_shard + range.size, layout.shard_size());
        EXPECT_EQ(rank * layout.shard_size() + range.in_shard, layout.offset(i) + next);
        next += range.size;
      }
      EXPECT_EQ(next, layout.numel(i));
    }
  }
}

TEST(FlatLayoutTest, NoParametersHaveNoShard) { EXPECT_EQ(FlatLayout({}, 3).total(), 0); }

}  // namespace
}  // namespace distrun::internal
