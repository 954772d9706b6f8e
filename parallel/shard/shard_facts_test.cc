#include "parallel/shard/shard_facts.h"

#include <gmock/gmock.h>

namespace distrun {
namespace {

using internal::RankShards;
using ::testing::HasSubstr;

RankShards some_facts() {
  return {.rank = 1,
          .global_size = {10, 4},
          .shards = {{.metadata = {{5, 0}, {5, 4}, "rank:1/cuda:1"},
                      .problem = "it is \"not\" defined",
                      .sizes = {4, 5},
                      .device = "cuda:1",
                      .dtype = at::kHalf,
                      .layout = at::kSparse,
                      .is_contiguous = false,
                      .requires_grad = true}}};
}

TEST(ShardFacts, ArriveUnchanged) {
  const RankShards facts = some_facts();
  const RankShards got = internal::facts_from_bytes(internal::to_bytes(facts));
  EXPECT_EQ(got.rank, facts.rank);
  EXPECT_EQ(got.global_size, facts.global_size);
  ASSERT_EQ(got.shards.size(), 1u);
  const auto& [shard, sent] = std::tie(got.shards[0], facts.shards[0]);
  EXPECT_EQ(shard.metadata, sent.metadata);
  EXPECT_EQ(shard.problem, sent.problem);
  EXPECT_EQ(shard.sizes, sent.sizes);
  EXPECT_EQ(shard.device, sent.device);
  EXPECT_EQ(shard.dtype, sent.dtype);
  EXPECT_EQ(shard.layout, sent.layout);
  EXPECT_EQ(shard.is_contiguous, sent.is_contiguous);
  EXPECT_EQ(shard.requires_grad, sent.requires_grad);
}

TEST(ShardFacts, AcceptsAPlacementOfAnyBytes) {
  RankShards facts = some_facts();
  facts.shards[0].metadata.placement = "rank:1/\xff";
  const RankShards got = internal::facts_from_bytes(internal::to_bytes(facts));
  EXPECT_THAT(got.shards[0].metadata.placement, HasSubstr("rank:1/"));
}

}  // namespace
}  // namespace distrun
