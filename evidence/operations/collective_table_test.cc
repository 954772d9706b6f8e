#include "evidence/operations/collective_table.h"

#include <gtest/gtest.h>

namespace distrun {
namespace {

using std::chrono::milliseconds;

Operation collective(std::uint32_t sequence, bool has_ended = false, int size = 3,
                     const char* op = "all_reduce", const char* group = "0") {
  Operation operation{.number = sequence,
                      .op = op,
                      .dtype = "Float",
                      .sizes = "[8]",
                      .group = group,
                      .group_size = size,
                      .sequence = sequence,
                      .began = OperationTime(milliseconds(sequence))};
  if (has_ended) operation.ended = OperationTime(milliseconds(sequence + 1));
  return operation;
}

TEST(CollectiveTableTest, ReturnsACollectiveOnceAllRanksHaveEnteredIt) {
  CollectiveTable table(true);
  table.add(0, collective(1));
  table.add(2, collective(1));
  EXPECT_TRUE(table.take_entered().empty());
  table.add(1, collective(1));
  const auto entered = table.take_entered();
  ASSERT_EQ(entered.size(), 1U);
  EXPECT_EQ(entered[0].by_rank.size(), 3U);
  EXPECT_TRUE(table.take_entered().empty());
  EXPECT_TRUE(table.take_ended().empty());
}

TEST(CollectiveTableTest, ReturnsACollectiveOnceAllRanksHaveEndedIt) {
  CollectiveTable table(true);
  for (const int rank : {0, 1, 2}) table.add(rank, collective(1));
  table.add(1, collective(1, true));
  table.add(0, collective(1, true));
  EXPECT_TRUE(table.take_ended().empty());
  table.add(2, collective(1, true));
  EXPECT_EQ(table.take_ended().size(), 1U);
  EXPECT_EQ(table.take_entered().size(), 1U);
}

TEST(CollectiveTableTest, NamesTheRankThatHasNotEntered) {
  CollectiveTable table(true);
  for (const int rank : {0, 1, 2}) table.add(rank, collective(1, true));
  EXPECT_EQ(table.line(), "");
  table.add(0, collective(2));
  table.add(2, collective(2));
  EXPECT_EQ(table.line(),
            "rank 1 has not entered all_reduce, number 2 of group 0 (Float [8]); ranks 0, 2 wait "
            "in it");
}

TEST(CollectiveTableTest, NamesTheRanksThatAreMissingInTheLastCollectiveOfARank) {
  CollectiveTable table(true);
  for (const int rank : {0, 1, 2}) table.add(rank, collective(1, true));
  EXPECT_EQ(table.missing_in_last_of(0, {.finished = {1, 2}}), "");
  table.add(0, collective(2, true));
  table.add(1, collective(2));
  EXPECT_EQ(table.missing_in_last_of(0, {.finished = {1, 2}}),
            "rank 2 had not entered all_reduce, number 2 of group 0 (Float [8]), which rank 0 had "
            "entered");
  EXPECT_NE(table.missing_in_last_of(0, {.finished = {}, .stopped = {1, 2}}), "");
  EXPECT_EQ(table.missing_in_last_of(0, {.finished = {1}}), "") << "nothing is known of rank 2";
  EXPECT_EQ(table.missing_in_last_of(2, {.finished = {0, 1}}), "")
      << "the others had entered its last one";
  EXPECT_EQ(table.missing_in_last_of(3, {.finished = {0, 1, 2}}), "");
}

// A root or an asynchronous call returns before the others have entered.
TEST(CollectiveTableTest, RanksThatWereStoppedAreNotMissingIfOneRankWasAhead) {
  CollectiveTable table(true);
  for (const int rank : {0, 1, 2}) table.add(rank, collective(1, true));
  table.add(0, collective(2, true));
  EXPECT_EQ(table.missing_in_last_of(0, {.finished = {}, .stopped = {1, 2}}), "");
  EXPECT_NE(table.missing_in_last_of(0, {.finished = {2}, .stopped = {1}}), "");
  table.add(1, collective(2));
  EXPECT_EQ(table.missing_in_last_of(1, {.finished = {}, .stopped = {2}}), "")
      << "rank 1 did not fail because of this collective, which it was still in";
  EXPECT_NE(table.missing_in_last_of(0, {.finished = {}, .stopped = {2}}), "");
}

TEST(CollectiveTableTest, NamesTheLatestCollectiveOfARankThatOthersAreMissingIn) {
  CollectiveTable table(true);
  for (const int rank : {0, 1, 2}) {
    table.add(rank, collective(1, true));
    table.add(rank, collective(3, true, 3, "all_reduce", "0@2"));
  }
  table.add(0, collective(2, true));
  table.add(0, collective(4, true, 3, "all_reduce", "0@2"));
  EXPECT_EQ(table.missing_in_last_of(0, {.finished = {1, 2}}),
            "ranks 1, 2 had not entered all_reduce, number 4 of group 0@2 (Float [8]), which rank "
            "0 had entered");
}

TEST(CollectiveTableTest, NamesRanksInDifferentCollectives) {
  CollectiveTable table(true);
  table.add(0, collective(1));
  table.add(1, collective(1, false, 3, "broadcast"));
  table.add(2, collective(1));
  EXPECT_EQ(table.line(),
            "ranks 0, 2 wait in all_reduce, number 1 of group 0 (Float [8]); rank 1 waits in "
            "broadcast, number 1 of group 0 (Float [8])");
}

TEST(CollectiveTableTest, NamesRanksThatAreAhead) {
  CollectiveTable table(true);
  table.add(0, collective(1));
  table.add(1, collective(1, true));
  table.add(1, collective(2));
  EXPECT_EQ(table.line(),
            "rank 0 waits in all_reduce, number 1 of group 0 (Float [8]); rank 1 is ahead, in "
            "all_reduce, number 2 of group 0 (Float [8])");
}

TEST(CollectiveTableTest, NamesTheFirstOfSeveralCollectivesThatARankIsIn) {
  CollectiveTable table(true);
  for (const int rank : {0, 1, 2}) table.add(rank, collective(1, true));
  for (const std::uint32_t sequence : {2U, 3U, 4U}) table.add(0, collective(sequence));
  table.add(1, collective(2));
  table.add(1, collective(3));
  EXPECT_EQ(table.line(),
            "rank 2 has not entered all_reduce, number 2 of group 0 (Float [8]); ranks 0, 1 wait "
            "in it");
}

TEST(CollectiveTableTest, NamesARankThatHasEnteredNothing) {
  CollectiveTable table(true);
  table.add(0, collective(1));
  table.add(2, collective(1));
  EXPECT_EQ(table.line(), "ranks 0, 2 wait in all_reduce, number 1 of group 0 (Float [8])");
  table.know_rank(1);
  EXPECT_EQ(table.line(),
            "rank 1 has not entered all_reduce, number 1 of group 0 (Float [8]); ranks 0, 2 wait "
            "in it");
}

TEST(CollectiveTableTest, NamesTheMissingMemberOfASubgroup) {
  CollectiveTable table(true);
  table.add(0, collective(1, false, 2, "all_reduce", "sub"));
  for (const int rank : {1, 2, 3}) table.know_rank(rank);
  EXPECT_EQ(table.line(), "rank 0 waits in all_reduce, number 1 of group sub (Float [8])");
  table.know_members("sub", {0, 2});
  EXPECT_EQ(table.line(),
            "rank 2 has not entered all_reduce, number 1 of group sub (Float [8]); rank 0 waits "
            "in it");
}

// Two groups, of ranks 0, 1 and 2, 3.
TEST(CollectiveTableTest, IgnoresANameThatSeveralGroupsHave) {
  CollectiveTable table(true);
  const auto enter = [&](int rank, std::uint32_t sequence, bool has_ended = false) {
    Operation operation = collective(sequence, has_ended, 2, "all_reduce", "1");
    operation.group_rank = rank % 2;
    table.add(rank, operation);
  };
  table.know_members("1", {0, 1});
  for (const int rank : {0, 1, 2, 3}) table.add(rank, collective(1, true, 4));
  enter(0, 1);
  enter(3, 1);  // It seems complete.
  enter(2, 1);
  for (const int rank : {0, 1}) enter(rank, 2, true);
  enter(1, 3);
  const auto entered = table.take_entered(), ended = table.take_ended();
  ASSERT_EQ(entered.size(), 1U);
  EXPECT_EQ(entered[0].any().group, "0");
  EXPECT_EQ(ended.size(), 1U);
  EXPECT_EQ(table.line(), "");
  EXPECT_EQ(table.missing_in_last_of(1, {.finished = {0, 2, 3}}), "");
}

TEST(CollectiveTableTest, RanksOfAGroupWithUnknownGroupRanksAreCompared) {
  CollectiveTable table(true);
  for (const int rank : {0, 1, 2}) table.add(rank, collective(1));
  EXPECT_EQ(table.take_entered().size(), 1U);
}

TEST(CollectiveTableTest, SeveralNodesExpectTheRanksSeenInTheGroup) {
  CollectiveTable table(false);
  table.add(4, collective(1, false, 8));
  table.add(5, collective(1, false, 8));
  table.take_entered();
  table.add(4, collective(2, false, 8));
  EXPECT_TRUE(table.take_entered().empty());
  table.add(5, collective(2, false, 8));
  EXPECT_EQ(table.take_entered().size(), 1U);
}

TEST(CollectiveTableTest, ARankThatHasJustEnteredDoesNotWait) {
  CollectiveTable table(true);
  for (const int rank : {0, 1, 2}) table.add(rank, collective(1, true));
  table.add(0, collective(2));
  const OperationTime began = collective(2).began;
  EXPECT_EQ(table.line({.since = began - milliseconds(1)}), "");
  EXPECT_EQ(table.line({.since = began}),
            "ranks 1, 2 have not entered all_reduce, number 2 of group 0 (Float [8]); rank 0 waits "
            "in it");
}

TEST(CollectiveTableTest, RanksThatMayHaveEnteredAreNotMissing) {
  CollectiveTable table(true);
  for (const int rank : {0, 1, 2}) table.add(rank, collective(1, true));
  table.add(0, collective(2));
  EXPECT_EQ(
      table.line({.ranks = {2}}),
      "rank 1 has not entered all_reduce, number 2 of group 0 (Float [8]); rank 0 waits in it");
  EXPECT_EQ(table.line({.ranks = {1, 2}}),
            "rank 0 waits in all_reduce, number 2 of group 0 (Float [8])");
}

TEST(CollectiveTableTest, ALostEndIsNotAWait) {
  CollectiveTable table(true);
  Operation first = collective(1);
  first.node = 1;
  table.add(2, first);
  table.add(0, collective(1, true));
  table.lose_ends(0);
  EXPECT_NE(table.line(), "");
  table.lose_ends(1);
  EXPECT_EQ(table.line(), "");
}

TEST(CollectiveTableTest, ForgetsTheOldestCollectivesOfAllGroups) {
  CollectiveTable table(true);
  for (std::uint32_t i = 1; i <= 9000; ++i) table.add(0, collective(i, true, 3, "all_reduce", "1"));
  for (const int rank : {0, 1, 2}) table.add(rank, collective(1, true, 3, "all_reduce", "0"));
  EXPECT_EQ(table.take_ended().size(), 1U);
}

TEST(CollectiveTableTest, LeavesOutSendsAndReceives) {
  CollectiveTable table(true);
  table.add(0, collective(0, false, 3, "send"));
  EXPECT_EQ(table.line(), "");
}

TEST(CollectiveTableTest, TextNamesThePeerOfASend) {
  Operation send = collective(0, false, 3, "send");
  send.peer = 1;
  EXPECT_EQ(text_of(send), "send to rank 1 of group 0 (Float [8])");
}

TEST(CollectiveTableTest, ForgetsCollectivesThatARankNeverEnters) {
  CollectiveTable table(true);
  for (std::uint32_t i = 1; i <= 20'000; ++i) table.add(0, collective(i, true));
  table.add(1, collective(20'000, true));
  table.add(2, collective(20'000, true));
  EXPECT_EQ(table.take_ended().size(), 1U);
}

}  // namespace
}  // namespace distrun
