#include "testsuites/harness/test_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distrun {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::UnorderedElementsAreArray;

LoadedTest loaded(const std::string& name, const TestNeeds& needs = {}) {
  return {{.id = "gloo.A." + name, .needs = needs, .file = "", .line = 0}, 0};
}

PlannedTest planned(const TestNeeds& needs, const PlanOptions& options = {}) {
  return plan_tests({loaded("t", needs)}, options, {}).at(0);
}

TEST(TestPlanTest, HasWhatTheTestNeeds) {
  const auto plan = planned({.ranks = 4, .timeout = milliseconds(500)});
  EXPECT_EQ(plan.ranks, 4);
  EXPECT_EQ(plan.backend, "gloo");
  EXPECT_EQ(plan.timeout, milliseconds(500));
  EXPECT_EQ(plan.skip_reason, "");
  EXPECT_EQ(plan.repeat_command, "distrun test gloo.A.t");
  EXPECT_EQ(planned({}).timeout, seconds(60));
  EXPECT_EQ(planned({}, {.timeout = seconds(5)}).timeout, seconds(5));
}

TEST(TestPlanTest, SkipsForWantOfGpus) {
  EXPECT_EQ(planned({.min_gpus = 1}).skip_reason, "needs 1 GPU, and there are 0");
  EXPECT_EQ(planned({.min_gpus = 2}, {.gpus = 1}).skip_reason, "needs 2 GPUs, and there is 1");
  EXPECT_EQ(planned({.min_gpus = 2}, {.gpus = 2}).skip_reason, "");
}

TEST(TestPlanTest, TakesAnotherBackendWhereTheTestHasIt) {
  const TestNeeds both{.backends = {"gloo", "fake"}};
  EXPECT_EQ(planned(both).backend, "gloo");
  EXPECT_EQ(planned(both, {.backend = "fake"}).backend, "fake");
  EXPECT_EQ(planned(both, {.backend = "fake"}).repeat_command,
            "distrun test --backend fake gloo.A.t");
  EXPECT_EQ(planned({}, {.backend = "fake"}).skip_reason, "has no backend fake, but gloo");
}

TEST(TestPlanTest, ReplacesTheRanksOnlyWithinTheRange) {
  const TestNeeds range{.ranks = 2, .ranks_max = 8};
  EXPECT_EQ(planned(range).ranks, 2);
  EXPECT_EQ(planned(range, {.nproc = 5}).ranks, 5);
  EXPECT_EQ(planned(range, {.nproc = 5}).repeat_command, "distrun test --nproc 5 gloo.A.t");
  EXPECT_EQ(planned(range, {.nproc = 9}).ranks, 2);
  EXPECT_EQ(planned(range, {.nproc = 1}).ranks, 2);
  EXPECT_EQ(planned({.ranks = 4}, {.nproc = 5}).ranks, 4);
  EXPECT_EQ(planned({.ranks = 4}, {.nproc = 5}).repeat_command, "distrun test gloo.A.t");
}

TEST(TestPlanTest, TheCommandNamesTheBinary) {
  EXPECT_EQ(planned({}, {.binaries = {"build/my tests"}}).repeat_command,
            "distrun test --binary 'build/my tests' gloo.A.t");
}

TEST(TestPlanTest, TheCommandHasWhatMayMatter) {
  EXPECT_EQ(planned({}, {.shuffle = true, .seed = 7}).repeat_command,
            "distrun test --seed 7 gloo.A.t");
  EXPECT_EQ(planned({}, {.fresh = true}).repeat_command, "distrun test --isolation exec gloo.A.t");
  EXPECT_EQ(planned({}, {.shuffle = true}).repeat_command, "distrun test gloo.A.t");
}

TEST(TestPlanTest, OfSeveralBinariesItsOwn) {
  const LoadedTest first = loaded("a");
  LoadedTest second = loaded("b");
  second.program = 1;
  const auto plan = plan_tests({first, second}, {.binaries = {"one", "two"}}, {});
  EXPECT_EQ(plan.at(0).program, 0u);
  EXPECT_EQ(plan.at(1).program, 1u);
  EXPECT_EQ(plan[0].repeat_command, "distrun test --binary one gloo.A.a");
  EXPECT_EQ(plan[1].repeat_command, "distrun test --binary two gloo.A.b");
}

TEST(TestPlanTest, RepeatsTheWholeList) {
  const auto plan = plan_tests({loaded("a"), loaded("b")}, {.repeat = 2}, {});
  ASSERT_EQ(plan.size(), 4u);
  EXPECT_EQ(plan[1].test.id, "gloo.A.b");
  EXPECT_EQ(plan[1].repetition, 0);
  EXPECT_EQ(plan[2].test.id, "gloo.A.a");
  EXPECT_EQ(plan[2].repetition, 1);
}

TEST(TestPlanTest, ASeedIsAnOrder) {
  std::vector<LoadedTest> tests;
  for (int i = 0; i < 20; ++i) tests.push_back(loaded(std::to_string(i)));
  const auto order = [&](std::uint64_t seed) {
    std::vector<std::string> ids;
    for (const auto& one : plan_tests(tests, {.shuffle = true, .seed = seed}, {})) {
      ids.push_back(one.test.id);
    }
    return ids;
  };
  EXPECT_EQ(order(1), order(1));
  EXPECT_NE(order(1), order(2));
  EXPECT_THAT(order(1), UnorderedElementsAreArray(order(2)));
}

TEST(TestPlanTest, EarlierRunsTellHowLongATestTakes) {
  History history;
  history.tests["gloo.A.t"].time = std::chrono::microseconds(1500);
  EXPECT_EQ(plan_tests({loaded("t")}, {}, history).at(0).expected, milliseconds(2));
}

}  // namespace
}  // namespace distrun
