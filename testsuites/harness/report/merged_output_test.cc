#include "testsuites/harness/report/merged_output.h"

#include <gtest/gtest.h>

namespace distrun {
namespace {

TEST(MergedOutputTest, EqualOutputsAppearOnce) {
  EXPECT_EQ(merged_output({{2, "a\nb\n"}, {0, "a\nb\n"}, {1, "a\nb"}}),
            "[ranks 0-2] a\n[ranks 0-2] b\n");
}

TEST(MergedOutputTest, LinesOfOneRankStandBetweenCommonOnes) {
  EXPECT_EQ(merged_output({{0, "load\nstep\nend\n"}, {1, "load\nslow\nstep\nend\n"}}),
            "[ranks 0, 1] load\n[rank 1] slow\n[ranks 0, 1] step\n[ranks 0, 1] end\n");
}

TEST(MergedOutputTest, ALineThatDiffersAppearsForEachRank) {
  EXPECT_EQ(merged_output({{0, "start\nrank 0\nend\n"}, {1, "start\nrank 1\nend\n"}}),
            "[ranks 0, 1] start\n[rank 0] rank 0\n[rank 1] rank 1\n[ranks 0, 1] end\n");
}

TEST(MergedOutputTest, DifferentOutputsStayTogetherInTheGivenOrder) {
  EXPECT_EQ(merged_output({{3, "a\nb\n"}, {0, "c\nd\n"}}),
            "[rank 3] a\n[rank 3] b\n[rank 0] c\n[rank 0] d\n");
}

TEST(MergedOutputTest, RepeatedLinesAppearAsOftenAsTheyWerePrinted) {
  EXPECT_EQ(merged_output({{0, "x\nx\nx\n"}, {1, "x\nx\n"}}),
            "[ranks 0, 1] x\n[ranks 0, 1] x\n[rank 0] x\n");
}

TEST(MergedOutputTest, LinesInAnotherOrderAppearAgain) {
  EXPECT_EQ(merged_output({{0, "a\nb\n"}, {1, "b\na\n"}}),
            "[rank 0] a\n[ranks 0, 1] b\n[rank 1] a\n");
}

TEST(MergedOutputTest, EmptyLinesAndRanksAreKept) {
  EXPECT_EQ(merged_output({{0, "\n\nx"}, {1, ""}}), "[rank 0] \n[rank 0] \n[rank 0] x\n");
  EXPECT_EQ(merged_output({{0, ""}}), "");
  EXPECT_EQ(merged_output({}), "");
}

}  // namespace
}  // namespace distrun
