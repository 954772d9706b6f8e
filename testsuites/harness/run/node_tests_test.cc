#include "testsuites/harness/run/node_tests.h"

#include <gtest/gtest.h>

namespace distrun {
namespace {

const std::vector<LoadedTest> kOnNode0 = {
    {.test = {.id = "gloo.CommTest.test_sum", .needs = {.ranks = 4}, .file = "a.cc", .line = 7}},
    {.test = {.id = "gloo.CommTest.test_max"}, .program = 1}};

std::string problem_with(const std::vector<LoadedTest>& others) {
  const auto same = check_same_tests(kOnNode0, others, /*node=*/2);
  return same ? "" : same.error().message;
}

TEST(NodeTestsTest, SameTestsMayHaveAnotherPlaceInTheSource) {
  auto others = kOnNode0;
  others[0].test.file = "/other/a.cc";
  others[0].test.line = 8;
  EXPECT_EQ(problem_with(others), "");
}

TEST(NodeTestsTest, EveryTestIsOnAllNodes) {
  EXPECT_EQ(problem_with({kOnNode0[0]}),
            "node 2 does not have the test gloo.CommTest.test_max; use the same build of the tests "
            "on all nodes");
  auto others = kOnNode0;
  others.push_back({.test = {.id = "gloo.CommTest.test_min"}});
  EXPECT_EQ(problem_with(others),
            "only node 2 has the test gloo.CommTest.test_min; use the same build of the tests on "
            "all nodes");
}

TEST(NodeTestsTest, TestsHaveTheSameNeeds) {
  auto others = kOnNode0;
  others[0].test.needs.ranks = 3;
  EXPECT_EQ(problem_with(others),
            "on node 2, the test gloo.CommTest.test_sum has other needs, such as another number of "
            "ranks; use the same build of the tests on all nodes");
}

TEST(NodeTestsTest, ATestOfAnotherProgramIsAnotherTest) {
  auto others = kOnNode0;
  others[1].program = 0;
  EXPECT_EQ(problem_with(others),
            "node 2 does not have the test gloo.CommTest.test_max; use the same build of the tests "
            "on all nodes");
}

}  // namespace
}  // namespace distrun
