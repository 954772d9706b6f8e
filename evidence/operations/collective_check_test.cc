#include "evidence/operations/collective_check.h"

#include <vector>

#include <gtest/gtest.h>

namespace distrun {
namespace {

using std::chrono::milliseconds;

class CollectiveCheckTest : public ::testing::Test {
 protected:
  CollectiveCheck check(bool sees_all_ranks = true) {
    return {{.sees_all_ranks = sees_all_ranks, .digests = true},
            {.on_straggler = [this](const Straggler& found) { late.push_back(found.rank); },
             .on_unlike_calls =
                 [this](const CallDifference& found) { unlike.push_back(text_of(found)); },
             .on_difference =
                 [this](const DigestDifference& found) {
                   different.push_back(found.operation.sequence);
                 },
             .on_ended = [this](const CollectiveOfRanks&) { ++ended; },
             .on_compared =
                 [this](std::uint64_t all, std::uint64_t lost) {
                   compared = all;
                   missed = lost;
                 }}};
  }

  // Both ranks end it; rank 1 enters it `late` later, and receives `digest`.
  static void run(CollectiveCheck& check, std::uint32_t sequence, milliseconds late,
                  std::uint32_t digest) {
    const OperationTime start(sequence * milliseconds(20));
    for (const int rank : {0, 1}) {
      Operation operation{.number = sequence,
                          .op = "all_reduce",
                          .group = "0",
                          .group_size = 2,
                          .sequence = sequence,
                          .began = start + (rank == 1 ? late : milliseconds(0))};
      operation.ended = start + late + milliseconds(1);
      operation.output_digests = BlockDigests{rank == 1 ? digest : 7};
      check.add(rank, operation);
    }
    check.judge();
  }

  std::vector<int> late;
  std::vector<std::string> unlike;
  std::vector<std::uint32_t> different;
  int ended = 0;
  std::uint64_t compared = 0, missed = 0;
};

TEST_F(CollectiveCheckTest, FindsTheFirstUnlikeCallOfAGroup) {
  CollectiveCheck all = check();
  all.begin();
  for (std::uint32_t i = 1; i <= 3; ++i) {
    for (const int rank : {0, 1}) {
      all.add(rank, {.op = i > 1 && rank == 1 ? "barrier" : "all_reduce",
                     .group = "0",
                     .group_size = 2,
                     .sequence = i});
    }
    all.judge();
  }
  EXPECT_EQ(unlike, std::vector<std::string>{
                        "rank 0 called all_reduce as number 2 of group 0, rank 1 called barrier"});
}

TEST_F(CollectiveCheckTest, FindsAStraggler) {
  CollectiveCheck all = check();
  all.begin();
  for (std::uint32_t i = 1; i <= 30; ++i) run(all, i, milliseconds(4), 7);
  EXPECT_EQ(late, std::vector<int>{1});
  EXPECT_EQ(ended, 30);
}

TEST_F(CollectiveCheckTest, ReportsTheFirstDifferenceOfAGroup) {
  CollectiveCheck all = check();
  all.begin();
  for (const std::uint32_t i : {1, 2, 3, 4}) run(all, i, milliseconds(0), i < 3 ? 7 : 8);
  EXPECT_EQ(different, std::vector<std::uint32_t>{3});
  all.miss(5);
  all.end();
  EXPECT_EQ(compared, 4U);
  EXPECT_EQ(missed, 5U);
}

TEST_F(CollectiveCheckTest, ANewAttemptForgetsTheOneBefore) {
  CollectiveCheck all = check();
  all.begin();
  run(all, 1, milliseconds(0), 8);
  all.miss(5);
  all.begin();
  run(all, 1, milliseconds(0), 8);
  all.end();
  EXPECT_EQ(different, (std::vector<std::uint32_t>{1, 1}));
  EXPECT_EQ(compared, 1U);
  EXPECT_EQ(missed, 0U);
}

TEST_F(CollectiveCheckTest, WithSomeRanksOnlyTheLineIsKnown) {
  CollectiveCheck some = check(/*sees_all_ranks=*/false);
  some.begin();
  run(some, 1, milliseconds(0), 8);
  Operation second{.number = 2, .op = "barrier", .group = "0", .group_size = 2, .sequence = 2};
  some.add(0, second);
  some.end();
  EXPECT_TRUE(different.empty());
  EXPECT_EQ(ended, 0);
  EXPECT_EQ(some.line({}),
            "rank 1 has not entered barrier, number 2 of group 0; rank 0 waits in it");
}

}  // namespace
}  // namespace distrun
