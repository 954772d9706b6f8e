#include "parallel/shard/shard_checks.h"

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <c10/util/Exception.h>
#include <gmock/gmock.h>

#include "distrun/shard_metadata.h"
#include "parallel/shard/shard_facts.h"

namespace distrun {
namespace {

using internal::RankShards;
using internal::ShardFacts;
using ::testing::HasSubstr;
using Sizes = std::vector<std::int64_t>;

// A tensor of sizes [10, 4] on two ranks, five rows each.
std::vector<RankShards> two_ranks() {
  std::vector<RankShards> all;
  for (const int rank : {0, 1}) {
    const ShardMetadata metadata{{5 * rank, 0}, {5, 4}, "rank:" + std::to_string(rank) + "/cpu"};
    const ShardFacts shard{.metadata = metadata, .sizes = {5, 4}, .device = "cpu"};
    all.push_back({.rank = rank, .global_size = {10, 4}, .shards = {shard}});
  }
  return all;
}

// Returns the error after `change`.
std::string complaint(const std::function<void(std::vector<RankShards>&)>& change) {
  auto all = two_ranks();
  change(all);
  try {
    internal::check_shards(all);
  } catch (const c10::ValueError& error) {
    return error.what_without_backtrace();
  }
  return "none";
}

std::string complaint_of_second(const std::function<void(ShardFacts&)>& change) {
  return complaint([&](auto& all) { change(all[1].shards[0]); });
}

TEST(ShardChecks, AcceptsShardsThatFormTheWhole) {
  EXPECT_EQ(complaint([](auto&) {}), "none");
}
TEST(ShardChecks, AcceptsRanksWithNoOrSeveralShards) {
  EXPECT_EQ(complaint([](auto& all) {
              all[0].shards.push_back(all[1].shards[0]);
              all[0].shards[1].metadata.placement = "rank:0/cpu";
              all[1].shards.clear();
            }),
            "none");
}
TEST(ShardChecks, RejectsATensorWithoutShards) {
  EXPECT_EQ(complaint([](auto& all) {
              for (RankShards& rank : all) rank.shards.clear();
            }),
            "init_from_local_shards: no rank has a shard; expected at least one");
}
TEST(ShardChecks, AcceptsEmptyShardsOfAnEmptyTensor) {
  EXPECT_EQ(complaint([](auto& all) {
              for (RankShards& rank : all) {
                rank.global_size = {0, 4};
                rank.shards[0].metadata.shard_offsets = {0, 0};
                rank.shards[0].metadata.shard_sizes = rank.shards[0].sizes = {0, 4};
              }
            }),
            "none");
}

TEST(ShardChecks, NamesBothSizesIfTheyDiffer) {
  EXPECT_EQ(complaint_of_second([](ShardFacts& shard) {
              shard.sizes = {4, 5};
            }),
            "init_from_local_shards: shard 0 of rank 1 has sizes [4, 5]; expected [5, 4], its "
            "shard_sizes");
}
TEST(ShardChecks, ReportsWhyATensorCannotBeChecked) {
  EXPECT_EQ(complaint_of_second([](ShardFacts& shard) { shard.problem = "it is not defined"; }),
            "init_from_local_shards: shard 0 of rank 1 has an unusable tensor: it is not defined");
}
TEST(ShardChecks, RejectsASparseTensor) {
  EXPECT_EQ(complaint_of_second([](ShardFacts& shard) { shard.layout = at::kSparse; }),
            "init_from_local_shards: shard 0 of rank 1 is Sparse; expected a dense tensor");
}
TEST(ShardChecks, RejectsANonContiguousTensor) {
  EXPECT_EQ(complaint_of_second([](ShardFacts& shard) { shard.is_contiguous = false; }),
            "init_from_local_shards: shard 0 of rank 1 is not contiguous (sizes [5, 4]); expected "
            "its contiguous()");
}

TEST(ShardChecks, QuotesInvalidPlacements) {
  for (const std::string text : {"", "cpu", "trainer0/cpu", "rank:x/cpu", "rank:-1/cpu",
                                 "rank:1/nothing", "rank:1/cpu/cpu", "rank:1/"}) {
    EXPECT_THAT(complaint_of_second([&](ShardFacts& shard) { shard.metadata.placement = text; }),
                HasSubstr("shard 0 of rank 1: '" + text + "' is not a placement; expected"));
  }
}
TEST(ShardChecks, RejectsAPlacementOnAnotherRank) {
  EXPECT_EQ(complaint_of_second([](ShardFacts& shard) { shard.metadata.placement = "rank:0/cpu"; }),
            "init_from_local_shards: shard 0 of rank 1 has placement rank:0/cpu; expected rank 1, "
            "which stores the tensor");
}
TEST(ShardChecks, RejectsAPlacementOnAnotherDevice) {
  EXPECT_EQ(
      complaint_of_second([](ShardFacts& shard) { shard.metadata.placement = "rank:1/cuda:1"; }),
      "init_from_local_shards: shard 0 of rank 1 has placement rank:1/cuda:1; expected "
      "device cpu, which stores the tensor");
}
TEST(ShardChecks, RejectsSeveralDtypes) {
  EXPECT_EQ(
      complaint_of_second([](ShardFacts& shard) { shard.dtype = at::kHalf; }),
      "init_from_local_shards: shard 0 of rank 1 has dtype Half; expected Float, the dtype of "
      "shard 0 of rank 0");
}
TEST(ShardChecks, RejectsShardsThatDifferInRequiresGrad) {
  EXPECT_EQ(complaint_of_second([](ShardFacts& shard) { shard.requires_grad = true; }),
            "init_from_local_shards: shard 0 of rank 1 has requires_grad true; expected false, as "
            "shard 0 of rank 0 has");
}
TEST(ShardChecks, RejectsSeveralGlobalSizes) {
  EXPECT_EQ(complaint([](auto& all) {
              all[1].global_size = {10, 5};
            }),
            "init_from_local_shards: rank 1 gives the global size [10, 5]; expected [10, 4], as "
            "rank 0 does");
}
TEST(ShardChecks, ChecksTheGlobalSizeOfARankWithoutShards) {
  EXPECT_THAT(complaint([](auto& all) {
                all[1].shards.clear();
                all[1].global_size = {10};
              }),
              HasSubstr("rank 1 gives the global size [10]; expected [10, 4]"));
}
TEST(ShardChecks, RejectsInvalidGlobalSizes) {
  const auto with_size = [](const Sizes& size) {
    return complaint([&](auto& all) {
      for (RankShards& rank : all) rank.global_size = size;
    });
  };
  EXPECT_EQ(with_size({-10, 4}),
            "init_from_local_shards: the global size is [-10, 4]; expected "
            "no negative numbers");
  const std::int64_t large = std::int64_t{1} << 32;
  EXPECT_THAT(with_size({large, large}), HasSubstr("expected a number of elements below 2^63"));
  EXPECT_THAT(with_size({large, large / 2}), HasSubstr("expected a number of elements below 2^63"));
}

TEST(ShardChecks, RejectsAnotherNumberOfDimensions) {
  EXPECT_EQ(complaint_of_second(
                [](ShardFacts& shard) { shard.metadata.shard_sizes = shard.sizes = {5}; }),
            "init_from_local_shards: shard 0 of rank 1 has shard_offsets [5, 0] and shard_sizes "
            "[5]; expected as many dimensions as the global size [10, 4] has");
  EXPECT_THAT(complaint_of_second([](ShardFacts& shard) { shard.metadata.shard_offsets = {5}; }),
              HasSubstr("shard 0 of rank 1 has shard_offsets [5] and shard_sizes [5, 4]"));
}
TEST(ShardChecks, RejectsAShardThatEndsOutside) {
  EXPECT_EQ(complaint_of_second([](ShardFacts& shard) { shard.metadata.shard_offsets[0] = 6; }),
            "init_from_local_shards: shard 0 of rank 1 has offset 6 and size 5 in dimension 0; "
            "expected to end within the global size [10, 4]");
  const auto most = std::numeric_limits<std::int64_t>::max();
  EXPECT_THAT(
      complaint_of_second([&](ShardFacts& shard) { shard.metadata.shard_offsets[1] = most; }),
      HasSubstr("in dimension 1; expected to end within"));
}
TEST(ShardChecks, RejectsNegativeOffsets) {
  EXPECT_THAT(complaint_of_second([](ShardFacts& shard) { shard.metadata.shard_offsets[1] = -1; }),
              HasSubstr("shard 0 of rank 1 has shard_offsets [5, -1] and shard_sizes [5, 4]; "
                        "expected no negative numbers"));
}
TEST(ShardChecks, NamesShardsThatOverlap) {
  EXPECT_EQ(complaint_of_second([](ShardFacts& shard) { shard.metadata.shard_offsets[0] = 4; }),
            "init_from_local_shards: shard 0 of rank 0 (offsets [0, 0], sizes [5, 4]) and shard 0 "
            "of rank 1 (offsets [4, 0], sizes [5, 4]) overlap; expected each element in one of "
            "them");
}
TEST(ShardChecks, CountsMissingElements) {
  EXPECT_EQ(complaint_of_second([](ShardFacts& shard) {
              shard.metadata.shard_sizes = shard.sizes = {5, 3};
            }),
            "init_from_local_shards: the shards of all ranks have 35 elements; expected 40, as the "
            "global size [10, 4] has: some are in no shard");
}

}  // namespace
}  // namespace distrun
