#include "evidence/operations/digest_check.h"

#include <gtest/gtest.h>

namespace distrun {
namespace {

CollectiveOfRanks ranks_with(const std::vector<BlockDigests>& digests,
                             const char* op = "all_reduce") {
  CollectiveOfRanks all;
  int rank = 0;
  for (const BlockDigests& each : digests) {
    all.by_rank[rank++] = {.op = op,
                           .dtype = "Float",
                           .sizes = "[1000]",
                           .elements = 1000,
                           .element_bytes = 4,
                           .group = "0",
                           .sequence = 12,
                           .output_digests = each};
  }
  return all;
}

TEST(DigestCheckTest, RanksThatAgreeDoNotDiffer) {
  EXPECT_FALSE(difference_in(ranks_with({{1}, {1}, {1}})));
}

TEST(DigestCheckTest, NamesTheRankThatIsAloneAndTheElements) {
  BlockDigests other = {1, 2, 3};
  other[1] = 7;
  const auto found = difference_in(ranks_with({{1, 2, 3}, {1, 2, 3}, other, {1, 2, 3}}));
  ASSERT_TRUE(found);
  EXPECT_EQ(text_of(*found),
            "rank 2 received other values than ranks 0, 1, 3 in all_reduce, number 12 of group 0 "
            "(Float [1000]), in elements 64 to 127");
}

TEST(DigestCheckTest, NamesAllRanksIfNoneIsAlone) {
  const auto found = difference_in(ranks_with({{1}, {2}}));
  ASSERT_TRUE(found);
  EXPECT_EQ(text_of(*found),
            "ranks 0, 1 received different values in all_reduce, number 12 of group 0 (Float "
            "[1000]), in elements 0 to 63");
}

TEST(DigestCheckTest, ElementsAreUnknownForSeveralTensors) {
  auto all = ranks_with({{1}, {2}});
  for (auto& [rank, operation] : all.by_rank) operation.element_bytes = 0;
  EXPECT_EQ(difference_in(all)->elements, std::nullopt);
}

TEST(DigestCheckTest, RanksMayReceiveDifferentPartsOfAScatter) {
  EXPECT_FALSE(difference_in(ranks_with({{1}, {2}}, "scatter")));
}

TEST(DigestCheckTest, SaysNothingWithoutAllDigests) {
  auto all = ranks_with({{1}, {2}, {1}});
  all.by_rank[1].output_digests.reset();
  EXPECT_FALSE(difference_in(all));
}

TEST(DigestCheckTest, DifferentCallsAreNoDifferenceOfValues) {
  auto all = ranks_with({{1}, {2}});
  all.by_rank[1].op = "broadcast";
  EXPECT_FALSE(difference_in(all));
  all = ranks_with({{1}, {2}});
  all.by_rank[1].elements = 999;
  EXPECT_FALSE(difference_in(all));
}

}  // namespace
}  // namespace distrun
