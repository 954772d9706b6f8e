#include "testsuites/harness/session/test_plan.h"

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
  return plan_tests({loaded("t", needs)}, options, {}).tests.at(0);
}

TEST(TestPlanTest, TakesTheNeedsOfTheTest) {
  const auto plan = planned({.ranks = 4, .timeout = milliseconds(500)});
  EXPECT_EQ(plan.ranks, 4);
  EXPECT_EQ(plan.backend, "gloo");
  EXPECT_EQ(plan.timeout, milliseconds(500));
  EXPECT_EQ(plan.skip_reason, "");
  EXPECT_EQ(plan.repeat_command, "distrun test gloo.A.t");
  EXPECT_EQ(planned({}).timeout, seconds(60));
  EXPECT_EQ(planned({}, {.timeout = seconds(5)}).timeout, seconds(5));
}

TEST(TestPlanTest, SkipsTestsThatNeedMoreGpus) {
  EXPECT_EQ(planned({.min_gpus = 1}).skip_reason, "needs 1 GPU; there are 0 CUDA devices");
  EXPECT_EQ(planned({.min_gpus = 2}, {.gpus = 1}).skip_reason,
            "needs 2 GPUs; there is 1 CUDA device");
  EXPECT_EQ(planned({.min_gpus = 2}, {.gpus = 2}).skip_reason, "");
  EXPECT_EQ(planned({.min_gpus = 2}, {.gpus = 1, .share_gpus = true}).skip_reason, "");
  EXPECT_EQ(planned({.min_gpus = 1}, {.share_gpus = true}).skip_reason,
            "needs 1 GPU; there are 0 CUDA devices");
}

TEST(TestPlanTest, SelectsABackendThatTheTestSupports) {
  const TestNeeds both{.backends = {"gloo", "fake"}};
  EXPECT_EQ(planned(both).backend, "gloo");
  EXPECT_EQ(planned(both, {.backend = "fake"}).backend, "fake");
  EXPECT_EQ(planned(both, {.backend = "fake"}).repeat_command,
            "distrun test --backend fake gloo.A.t");
  EXPECT_EQ(planned({}, {.backend = "fake"}).skip_reason,
            "does not support backend fake, only gloo");
}

TEST(TestPlanTest, NprocAppliesOnlyWithinTheRange) {
  const TestNeeds range{.ranks = 2, .ranks_max = 8};
  EXPECT_EQ(planned(range).ranks, 2);
  EXPECT_EQ(planned(range, {.nproc = 5}).ranks, 5);
  EXPECT_EQ(planned(range, {.nproc = 5}).repeat_command, "distrun test --nproc 5 gloo.A.t");
  EXPECT_EQ(planned(range, {.nproc = 8}).skip_reason, "");
  EXPECT_EQ(planned(range, {.nproc = 9}).skip_reason, "takes 2 to 8 ranks; --nproc is 9");
  EXPECT_EQ(planned(range, {.nproc = 1}).skip_reason, "takes 2 to 8 ranks; --nproc is 1");
  EXPECT_EQ(planned({.ranks = 4}, {.nproc = 5}).skip_reason, "");
  EXPECT_EQ(planned({.ranks = 4}, {.nproc = 5}).ranks, 4);
  EXPECT_EQ(planned({.ranks = 4}, {.nproc = 5}).repeat_command, "distrun test gloo.A.t");
}

TEST(TestPlanTest, RepeatCommandNamesTestAndBinary) {
  EXPECT_EQ(plan_tests({loaded("a b")}, {}, {}).tests.at(0).repeat_command,
            "distrun test 'gloo.A.a b'");
  EXPECT_EQ(planned({}, {.binaries = {"build/my tests"}}).repeat_command,
            "distrun test --binary 'build/my tests' gloo.A.t");
}

TEST(TestPlanTest, RepeatCommandEndsWithThePythonFile) {
  EXPECT_EQ(
      planned({}, {.fresh = true, .command = {"python3", "my tests.py", "-v"}}).repeat_command,
      "distrun test --isolation exec gloo.A.t -- python3 'my tests.py' -v");
}

TEST(TestPlanTest, RepeatCommandHasOptionsThatMatter) {
  EXPECT_EQ(planned({}, {.shuffle = true, .seed = 7}).repeat_command,
            "distrun test --seed 7 gloo.A.t");
  EXPECT_EQ(planned({}, {.fresh = true}).repeat_command, "distrun test --isolation exec gloo.A.t");
  EXPECT_EQ(planned({}, {.collectives_may_differ = true}).repeat_command,
            "distrun test --collectives-may-differ gloo.A.t");
  EXPECT_EQ(planned({}, {.shuffle = true}).repeat_command, "distrun test gloo.A.t");
}

// A test that sets its own limit has no other one.
TEST(TestPlanTest, RepeatCommandKeepsTheTimeLimitThatApplied) {
  EXPECT_EQ(planned({}, {.timeout = milliseconds(500)}).repeat_command,
            "distrun test --timeout 0.5 gloo.A.t");
  EXPECT_EQ(planned({}, {.timeout = seconds(60)}).repeat_command, "distrun test gloo.A.t");
  EXPECT_EQ(planned({.timeout = seconds(5)}, {.timeout = seconds(30)}).repeat_command,
            "distrun test gloo.A.t");
}

TEST(TestPlanTest, RepeatCommandKeepsWhatCountsAsAFailure) {
  EXPECT_EQ(planned({}, {.ignore_leaks = true, .no_skips = true}).repeat_command,
            "distrun test --ignore-leaks --no-skips gloo.A.t");
}

TEST(TestPlanTest, FailedTestsRepeatWithTheirFlagsAndSelection) {
  EXPECT_EQ(repeat_failed_command({}, {}), "distrun test --failed");
  EXPECT_EQ(repeat_failed_command({.nproc = 3,
                                   .timeout = seconds(1500),
                                   .shuffle = true,
                                   .seed = 7,
                                   .binaries = {"one", "my tests"}},
                                  {.names = {"gloo.A"}, .expression = "not b", .shard = {2, 3}}),
            "distrun test --failed --binary one --binary 'my tests' --nproc 3 --timeout 1500 "
            "--seed 7 --shuffle -k 'not b' --shard 2/3 gloo.A");
  EXPECT_EQ(repeat_failed_command({.command = {"python3", "a.py"}}, {}),
            "distrun test --failed -- python3 a.py");
}

TEST(TestPlanTest, CollectivesMayDifferInEveryTestIfAsked) {
  EXPECT_FALSE(planned({}, {}).test.needs.collectives_may_differ);
  EXPECT_TRUE(planned({}, {.collectives_may_differ = true}).test.needs.collectives_may_differ);
  EXPECT_TRUE(planned({.collectives_may_differ = true}, {}).test.needs.collectives_may_differ);
}

TEST(TestPlanTest, RepeatCommandNamesOnlyTheTestsBinary) {
  const LoadedTest first = loaded("a");
  LoadedTest second = loaded("b");
  second.program = 1;
  const auto plan = plan_tests({first, second}, {.binaries = {"one", "two"}}, {});
  EXPECT_EQ(plan.tests.at(0).program, 0u);
  EXPECT_EQ(plan.tests.at(1).program, 1u);
  EXPECT_EQ(plan.tests[0].repeat_command, "distrun test --binary one gloo.A.a");
  EXPECT_EQ(plan.tests[1].repeat_command, "distrun test --binary two gloo.A.b");
}

TEST(TestPlanTest, RepeatsTheWholeListInTurn) {
  const auto plan = plan_tests({loaded("a"), loaded("b")}, {.repeat = 2}, {});
  EXPECT_EQ(plan.tests.size(), 2u);
  ASSERT_EQ(plan.turns.size(), 4u);
  EXPECT_EQ(plan.tests[plan.turns[1].test].test.id, "gloo.A.b");
  EXPECT_EQ(plan.turns[1].repetition, 0);
  EXPECT_EQ(plan.tests[plan.turns[2].test].test.id, "gloo.A.a");
  EXPECT_EQ(plan.turns[2].repetition, 1);
}

TEST(TestPlanTest, TheSeedDeterminesTheOrder) {
  const std::vector<LoadedTest> tests = {loaded("a"), loaded("b")};
  const auto order = [&](std::uint64_t seed) {
    std::vector<std::pair<std::uint32_t, int>> turns;
    const auto plan = plan_tests(tests, {.repeat = 10, .shuffle = true, .seed = seed}, {});
    for (const auto& turn : plan.turns) turns.emplace_back(turn.test, turn.repetition);
    return turns;
  };
  EXPECT_EQ(order(1), order(1));
  EXPECT_NE(order(1), order(2));
  EXPECT_THAT(order(1), UnorderedElementsAreArray(order(2)));
}

TEST(TestPlanTest, AllowsAtLeastTheRanksOfTheLargestTest) {
  const std::vector<LoadedTest> tests = {loaded("a"), loaded("b", {.ranks = 32}),
                                         loaded("c", {.ranks = 64, .min_gpus = 1})};
  EXPECT_EQ(plan_tests(tests, {.cpus = 2}, {}).jobs, 32);
  EXPECT_EQ(plan_tests(tests, {.cpus = 20}, {}).jobs, 40);
  EXPECT_EQ(plan_tests(tests, {.jobs = 3}, {}).jobs, 3);
}

TEST(TestPlanTest, TakesExpectedTimesFromEarlierRuns) {
  History history;
  history.tests["gloo.A.t"].time = std::chrono::microseconds(1500);
  EXPECT_EQ(plan_tests({loaded("t")}, {}, history).tests.at(0).expected, milliseconds(2));
}

}  // namespace
}  // namespace distrun
