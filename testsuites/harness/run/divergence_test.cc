#include "testsuites/harness/run/divergence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distrun {
namespace {

using ::testing::ElementsAre;
using Kind = Divergence::Kind;

CollectiveStretch stretch(const char* op, int count, std::vector<std::int64_t> sizes = {3},
                          const char* dtype = "Float") {
  return {
      "0", "default_pg", {.op = op, .sizes = {std::move(sizes)}, .dtype = dtype, .count = count}};
}

CollectiveStretch waiting(CollectiveStretch one) {
  one.has_ended = false;
  return one;
}

CollectiveStretch in_group_1(CollectiveStretch one) {
  one.group = "1";
  one.description = "1";
  return one;
}

using Record = std::vector<CollectiveStretch>;

std::optional<Divergence> divergence(const std::vector<Record>& ranks) {
  std::vector<CollectiveRecord> records;
  for (const Record& rank : ranks) records.push_back({.stretches = rank});
  std::vector<const CollectiveRecord*> all;
  for (const CollectiveRecord& record : records) all.push_back(&record);
  return divergence_of(all);
}

std::string text_of(const std::vector<Record>& ranks) {
  const auto found = divergence(ranks);
  return found ? found->text : "";
}

TEST(DivergenceTest, EqualCollectivesDoNotDiverge) {
  const Record one = {stretch("broadcast", 1), stretch("allreduce", 1000), stretch("barrier", 2)};
  EXPECT_FALSE(divergence({one, one, one}));
  EXPECT_FALSE(divergence({{}, {}}));
  EXPECT_FALSE(divergence({}));
}

TEST(DivergenceTest, StretchesMayBeCutDifferently) {
  const Record cut = {stretch("allreduce", 2), waiting(stretch("allreduce", 1))};
  EXPECT_FALSE(divergence({cut, {stretch("allreduce", 3)}}));
}

TEST(DivergenceTest, NamesTheRankThatRanAnotherCollective) {
  const auto found = divergence({{stretch("allreduce", 7), stretch("allreduce", 1)},
                                 {stretch("allreduce", 7), stretch("broadcast", 1)},
                                 {stretch("allreduce", 9)}});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->kind, Kind::kDifferent);
  EXPECT_THAT(found->ranks, ElementsAre(1));
  EXPECT_EQ(
      found->text,
      "rank 1 ran broadcast of Float [3] as collective 8 of the default group, ranks 0, 2 ran "
      "allreduce of Float [3]");
}

TEST(DivergenceTest, ComparesSizesAndDtypesAndBlamesBothOfTwo) {
  const auto found =
      divergence({{stretch("allreduce", 1, {8})}, {stretch("allreduce", 1, {4}, "Double")}});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->text,
            "rank 0 ran allreduce of Float [8] as collective 1 of the default group, rank 1 ran "
            "allreduce of Double [4]");
  EXPECT_THAT(found->ranks, ElementsAre(0, 1));
  EXPECT_TRUE(divergence({{stretch("allreduce", 1)}, {stretch("allreduce", 1, {3}, "Int")}}));
}

TEST(DivergenceTest, ShowsThreeOfManySizes) {
  CollectiveStretch many = stretch("allreduce_coalesced", 1);
  many.collective.sizes = {{1}, {2}, {3}, {4}, {5}};
  EXPECT_THAT(text_of({{many}, {stretch("barrier", 1)}}),
              ::testing::HasSubstr("allreduce_coalesced of Float [1] [2] [3] and 2 more"));
}

TEST(DivergenceTest, DoesNotCompareSizesThatMayDiffer) {
  for (const char* op : {"scatter", "reduce_scatter", "alltoall", "all_to_all_single"}) {
    EXPECT_FALSE(divergence({{stretch(op, 1, {8})}, {stretch(op, 1, {4})}})) << op;
  }
}

TEST(DivergenceTest, NamesTheRankThatOthersWaitFor) {
  const Record waits = {stretch("allreduce", 1), waiting(stretch("allreduce", 1))};
  const auto found = divergence({waits, waits, {stretch("allreduce", 1)}, waits});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->kind, Kind::kAwaited);
  EXPECT_THAT(found->ranks, ElementsAre(2));
  EXPECT_EQ(found->text,
            "rank 2 had not entered collective 2 of the default group, allreduce of Float [3], in "
            "which ranks 0, 1, 3 waited");
}

TEST(DivergenceTest, NamesRanksWithoutAnyCollectiveIfOthersWait) {
  EXPECT_EQ(text_of({{}, {}, {waiting(stretch("allreduce", 1))}}),
            "ranks 0, 1 had not entered collective 1 of the default group, allreduce of Float [3], "
            "in which rank 2 waited");
}

TEST(DivergenceTest, NamesTheRankThatSkippedACollective) {
  const auto found = divergence({{stretch("broadcast", 5)}, {stretch("broadcast", 4)}});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->kind, Kind::kMissing);
  EXPECT_EQ(found->text,
            "rank 1 had not run collective 5 of the default group, broadcast of Float [3], which "
            "rank 0 ran");
}

// Their members are unknown.
TEST(DivergenceTest, GroupsHaveTheRanksThatUsedThem) {
  const Record both = {stretch("allreduce", 1), in_group_1(stretch("allreduce", 2))};
  EXPECT_FALSE(divergence({both, {stretch("allreduce", 1)}, both}));
  EXPECT_FALSE(divergence({{stretch("allreduce", 1)}, {}, {stretch("allreduce", 1)}}));
  EXPECT_EQ(text_of({both, both, {stretch("allreduce", 1), in_group_1(stretch("allreduce", 1))}}),
            "rank 2 had not run collective 2 of group 1, allreduce of Float [3], which ranks 0, 1 "
            "ran");
}

// Backends that were made without a group.
TEST(DivergenceTest, DoesNotCompareGroupsWithoutAName) {
  CollectiveStretch one = stretch("allreduce", 1), other = stretch("broadcast", 2);
  one.group = other.group = "";
  EXPECT_FALSE(divergence({{one}, {other}}));
}

TEST(DivergenceTest, PrefersDifferentCollectivesToMissingOnes) {
  const auto found = divergence({{stretch("allreduce", 2), in_group_1(stretch("barrier", 1))},
                                 {stretch("allreduce", 1), in_group_1(stretch("broadcast", 1))}});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->kind, Kind::kDifferent);
}

TEST(DivergenceTest, IgnoresSendsAndUnknownRanks) {
  EXPECT_FALSE(divergence({{stretch("send 0->1", 1)}, {stretch("recv 1<-0", 1)}}));
  const CollectiveRecord known{.stretches = {stretch("allreduce", 1)}};
  EXPECT_FALSE(divergence_of({&known, nullptr}));
}

TEST(DivergenceTest, DoesNotCompareRecordsWithoutTheirStart) {
  const CollectiveRecord whole{.stretches = {stretch("allreduce", 1)}};
  const CollectiveRecord cut{.stretches = {stretch("broadcast", 1)}, .is_whole = false};
  EXPECT_FALSE(divergence_of({&whole, &cut}));
}

}  // namespace
}  // namespace distrun
