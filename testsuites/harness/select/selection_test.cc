#include "testsuites/harness/select/selection.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distrun {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::StartsWith;

std::vector<TestInfo> tests(std::vector<std::string> ids = {
                                "gloo.CommTest.test_sum", "gloo.CommTest.test_sum_cuda",
                                "gloo.CommTestMore.test_sum", "fake.CommTest.test_max"}) {
  std::vector<TestInfo> list;
  for (std::string& id : ids) list.push_back({.id = std::move(id)});
  return list;
}

std::vector<std::string> selected(const TestSelection& selection,
                                  std::vector<TestInfo> list = tests()) {
  std::vector<std::string> ids;
  for (const TestInfo& test : select_tests(std::move(list), selection).value().tests)
    ids.push_back(test.id);
  return ids;
}

std::string problem(const TestSelection& selection) {
  const auto result = select_tests(tests(), selection);
  return result ? "none" : result.error().message;
}

TEST(SelectionTest, SelectsAllTestsByDefault) { EXPECT_EQ(selected({}).size(), 4U); }

TEST(SelectionTest, ANameIsAnIdOrItsLeadingParts) {
  EXPECT_THAT(selected({.names = {"fake"}}), ElementsAre("fake.CommTest.test_max"));
  EXPECT_THAT(selected({.names = {"gloo.CommTest"}}),
              ElementsAre("gloo.CommTest.test_sum", "gloo.CommTest.test_sum_cuda"));
  EXPECT_THAT(selected({.names = {"gloo.CommTest.test_sum"}}),
              ElementsAre("gloo.CommTest.test_sum"));
}

TEST(SelectionTest, IgnoresATrailingDot) {
  EXPECT_EQ(selected({.names = {"gloo."}}), selected({.names = {"gloo"}}));
  EXPECT_EQ(selected({.names = {"gloo.CommTest."}}), selected({.names = {"gloo.CommTest"}}));
  for (const char* none : {"", ".", "gloo..", "gloo.CommTest.test_sum."}) {
    EXPECT_THAT(problem({.names = {none}}), StartsWith("no test is called '")) << none;
  }
}

TEST(SelectionTest, NamesAddUpAndKeepTheOrderOfTheList) {
  EXPECT_THAT(selected({.names = {"fake", "gloo.CommTest.test_sum", "gloo.CommTest.test_sum"}}),
              ElementsAre("gloo.CommTest.test_sum", "fake.CommTest.test_max"));
}

TEST(SelectionTest, AnUnknownNameIsAnErrorWithNearMatches) {
  EXPECT_EQ(problem({.names = {"fake", "gloo.Comm"}}),
            "no test is called 'gloo.Comm': did you mean gloo.CommTest or gloo.CommTestMore or "
            "gloo.CommTest.test_sum?");
  EXPECT_EQ(problem({.names = {"glo.commtest"}}),
            "no test is called 'glo.commtest': did you mean gloo.CommTest?");
  EXPECT_EQ(problem({.names = {"test_max"}}),
            "no test is called 'test_max': did you mean fake.CommTest.test_max?");
  EXPECT_EQ(problem({.names = {"gloo.*"}}), "no test is called 'gloo.*': did you mean gloo?");
  EXPECT_EQ(problem({.names = {"***"}}), "no test is called '***': --list shows all tests");
  EXPECT_EQ(problem({.names = {"nccl.Whatever"}}),
            "no test is called 'nccl.Whatever': --list shows all tests");
  EXPECT_EQ(problem({.names = {"x\n"}}), "no test is called 'x\\x0a': --list shows all tests");
}

TEST(SelectionTest, TheExpressionFiltersNamedTests) {
  EXPECT_THAT(selected({.names = {"gloo"}, .expression = "commtest. and not CUDA"}),
              ElementsAre("gloo.CommTest.test_sum"));
  EXPECT_THAT(selected({.names = {"fake"}, .expression = "gloo"}), IsEmpty());
  EXPECT_EQ(problem({.expression = "gloo or"}),
            "-k 'gloo or': at 8, the end: expected a word, 'not' or '('");
}

TEST(SelectionTest, FailedTestsAreFilteredByName) {
  EXPECT_THAT(selected({.names = {"gloo"},
                        .ids = std::set<std::string>{"gloo.CommTest.test_sum",
                                                     "fake.CommTest.test_max", "gone.T.t"}}),
              ElementsAre("gloo.CommTest.test_sum"));
  EXPECT_THAT(selected({.ids = std::set<std::string>()}), IsEmpty());
}

TEST(SelectionTest, NamesTheFilterThatLeavesNoTest) {
  const auto why_none = [](const TestSelection& selection) {
    return select_tests(tests(), selection).value().why_none;
  };
  EXPECT_EQ(why_none({}), "");
  EXPECT_EQ(select_tests({}, {}).value().why_none, "there are no tests");
  EXPECT_EQ(why_none({.names = {"gloo"}, .expression = "zzz"}), "-k zzz matches none of 3 tests");
  EXPECT_EQ(why_none({.names = {"fake"}, .expression = "x and y", .shard = {1, 2}}),
            "-k 'x and y' matches none of 1 test");
  EXPECT_EQ(why_none({.ids = std::set<std::string>{"gone.T.t"}}),
            "--failed matches none of 4 tests");
  EXPECT_EQ(why_none({.shard = {999, 999'999}}), "--shard 999/999999 matches none of 4 tests");
}

TEST(ShardTest, ParsesIndexAndCount) {
  EXPECT_EQ(parse_shard("2/3").value().index, 2);
  EXPECT_EQ(parse_shard("2/3").value().count, 3);
  const auto said = [](std::string_view text) { return parse_shard(text).error().message; };
  EXPECT_EQ(said("2"), "--shard 2: expected I/N, for example 1/3");
  EXPECT_EQ(said("0/3"), "--shard 0/3: 0 is not between 1 and 3");
  EXPECT_EQ(said("4/3"), "--shard 4/3: 4 is not between 1 and 3");
  EXPECT_EQ(said("1/0"), "--shard 1/0: 0 is not between 1 and 1000000");
  EXPECT_EQ(said("1/3/5"), "--shard 1/3/5: '3/5' is not a whole number");
}

// Another program computed these values from the formula in the header.
TEST(ShardTest, IsTheSameOnEveryMachine) {
  const auto shards = [](std::string_view id) {
    return std::vector<int>{shard_of(id, 2), shard_of(id, 3), shard_of(id, 7), shard_of(id, 1000)};
  };
  EXPECT_THAT(shards("gloo.CommTest.test_sum"), ElementsAre(1, 1, 6, 751));
  EXPECT_THAT(shards("gloo.ProcessGroupGlooTest.test_allreduce_basics"), ElementsAre(1, 2, 5, 767));
  EXPECT_EQ(shard_of("gloo.CommTest.test_sum", 1), 1);
}

TEST(ShardTest, EachTestIsInOneShardAndOthersDoNotMoveIt) {
  std::vector<std::string> ids;
  for (int i = 0; i < 300; ++i) ids.push_back("gloo.T.test_" + std::to_string(i));
  std::vector<std::string> all;
  for (int index = 1; index <= 3; ++index) {
    const TestShard shard{index, 3};
    const auto mine = selected({.shard = shard}, tests(ids));
    EXPECT_GT(mine.size(), 70U);
    all.insert(all.end(), mine.begin(), mine.end());

    std::vector<std::string> fewer(ids.begin() + 1, ids.end());
    auto same = mine;
    std::erase(same, ids.front());
    EXPECT_EQ(selected({.shard = shard}, tests(fewer)), same);
  }
  EXPECT_THAT(all, ::testing::UnorderedElementsAreArray(ids));
}

}  // namespace
}  // namespace distrun
