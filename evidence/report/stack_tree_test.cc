#include "evidence/report/stack_tree.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distrun {
namespace {

using ::testing::ElementsAre;

std::vector<Frame> stack(const std::vector<std::string>& functions) {
  std::vector<Frame> frames;
  for (const std::string& function : functions) {
    frames.push_back({.function = function, .source = "train.py", .line = 1});
  }
  return frames;
}

TEST(StackTreeTest, ShowsCommonCallsOnceAndTheFewestRanksFirst) {
  StackTree tree;
  tree.add(0, stack({"main", "step", "all_reduce"}));
  tree.add(1, stack({"main", "step", "all_reduce"}));
  tree.add(2, stack({"main", "load"}));
  tree.add(3, stack({"main", "step", "broadcast"}));
  EXPECT_EQ(tree.text("  "),
            "  main (train.py:1)\n"
            "  rank 2\n"
            "    load (train.py:1)\n"
            "  ranks 0, 1, 3\n"
            "    step (train.py:1)\n"
            "    rank 3\n"
            "      broadcast (train.py:1)\n"
            "    ranks 0, 1\n"
            "      all_reduce (train.py:1)\n");
}

TEST(StackTreeTest, ShowsWhichRanksEndAtAFrame) {
  StackTree tree;
  tree.add(0, stack({"main"}));
  tree.add(1, stack({"main", "load"}));
  tree.add(2, stack({"main", "load"}));
  EXPECT_EQ(tree.text(""),
            "main (train.py:1)\n"
            "rank 0 goes no further\n"
            "ranks 1, 2\n"
            "  load (train.py:1)\n");
}

TEST(StackTreeTest, RanksAtOnePlaceHaveOneStack) {
  StackTree tree;
  EXPECT_TRUE(tree.empty());
  EXPECT_EQ(tree.text(""), "");
  for (int rank = 0; rank < 3; ++rank) tree.add(rank, stack({"main", "load"}));
  EXPECT_EQ(tree.text(""), "main (train.py:1)\nload (train.py:1)\n");
  EXPECT_THAT(tree.ranks(), ElementsAre(0, 1, 2));
}

TEST(StackTreeTest, CountsARankWithSeveralThreadsOnce) {
  StackTree tree;
  tree.add(0, stack({"loop"}));
  tree.add(0, stack({"loop"}));
  tree.add(1, stack({"other"}));
  EXPECT_EQ(tree.text(""),
            "rank 0\n"
            "  loop (train.py:1)\n"
            "rank 1\n"
            "  other (train.py:1)\n");
}

}  // namespace
}  // namespace distrun
