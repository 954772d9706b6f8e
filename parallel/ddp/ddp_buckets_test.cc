#include "parallel/ddp/ddp_buckets.h"

#include <limits>

#include <c10/util/Exception.h>
#include <gmock/gmock.h>

namespace distrun::internal {
namespace {

using ::testing::ElementsAre;

constexpr std::int64_t kMiB = 1024 * 1024;

TEST(BucketSizesTest, MatchesPythonByDefault) {
  const BucketSizes sizes = bucket_sizes(std::nullopt, /*graph_may_change=*/true);
  EXPECT_EQ(sizes.first, kMiB);
  EXPECT_EQ(sizes.others, 25 * kMiB);
  EXPECT_THAT(sizes.at_first, ElementsAre(kMiB, 25 * kMiB));
}

TEST(BucketSizesTest, AppliesTheUsersSizeToTheFirstBucketToo) {
  const BucketSizes sizes = bucket_sizes(0.5, /*graph_may_change=*/true);
  EXPECT_EQ(sizes.first, kMiB / 2);
  EXPECT_EQ(sizes.others, kMiB / 2);
  EXPECT_THAT(sizes.at_first, ElementsAre(kMiB / 2));
}

TEST(BucketSizesTest, StartsWithOneBucketIfBucketsAreRebuilt) {
  for (const auto cap : {std::optional<double>(), std::optional<double>(0.5)}) {
    EXPECT_THAT(bucket_sizes(cap, /*graph_may_change=*/false).at_first,
                ElementsAre(std::numeric_limits<std::size_t>::max()));
  }
}

TEST(BucketSizesTest, RejectsInvalidSizes) {
  for (const double cap : {-1.0, -0.1, 1e10, std::numeric_limits<double>::quiet_NaN()}) {
    try {
      bucket_sizes(cap, false);
      ADD_FAILURE() << cap;
    } catch (const c10::ValueError& error) {
      EXPECT_EQ(error.what_without_backtrace(),
                c10::str("DistributedDataParallel: bucket_cap_mb is ", cap,
                         "; expected a size in MiB, or 0 for one bucket per parameter"));
    }
  }
}

}  // namespace
}  // namespace distrun::internal
