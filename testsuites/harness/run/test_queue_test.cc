#include "testsuites/harness/run/test_queue.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distrun {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

PlannedTest planned(const std::string& id, int ranks, std::size_t program = 0) {
  PlannedTest test;
  test.test.id = id;
  test.program = program;
  test.ranks = ranks;
  return test;
}

AttemptResult result_of(TestStatus status, int attempt = 1) {
  AttemptResult result;
  result.status = status;
  result.attempt = attempt;
  return result;
}

TestQueue filled(TestPlan plan, TestQueue::Options options = {.jobs = 100}) {
  options.keeps_order = true;
  TestQueue queue(options);
  queue.fill(std::move(plan));
  return queue;
}

std::vector<std::size_t> take_all(TestQueue& queue) {
  std::vector<std::size_t> taken;
  while (const auto item = queue.take()) taken.push_back(*item);
  return taken;
}

TEST(TestQueueTest, HasAnItemForEachTestOrTurn) {
  const TestQueue once = filled({.tests = {planned("a", 1), planned("b", 1)}});
  ASSERT_EQ(once.size(), 2u);
  EXPECT_EQ(once.at(1).plan.test.id, "b");
  const TestQueue twice = filled({.tests = {planned("a", 1), planned("b", 1)},
                                  .turns = {{.test = 1, .repetition = 0},
                                            {.test = 0, .repetition = 0},
                                            {.test = 1, .repetition = 1}}});
  ASSERT_EQ(twice.size(), 3u);
  EXPECT_EQ(twice.at(0).plan.test.id, "b");
  EXPECT_EQ(twice.at(2).plan.test.id, "b");
  EXPECT_EQ(twice.at(2).repetition, 1);
}

TEST(TestQueueTest, DoesNotTakeSkippedTests) {
  TestPlan plan{.tests = {planned("a", 1), planned("b", 1)}};
  plan.tests[0].skip_reason = "no GPU";
  TestQueue queue = filled(std::move(plan));
  EXPECT_EQ(queue.size(), 2u);
  EXPECT_THAT(take_all(queue), ElementsAre(1));
}

TEST(TestQueueTest, TakesTestsWhileTheirRanksFit) {
  TestQueue queue =
      filled({.tests = {planned("a", 2), planned("b", 2), planned("c", 2)}}, {.jobs = 4});
  EXPECT_THAT(take_all(queue), ElementsAre(0, 1));
  queue.begin(0);
  queue.attempt_ended(0, result_of(TestStatus::kPassed));
  EXPECT_THAT(take_all(queue), ElementsAre(2));
}

TEST(TestQueueTest, ThePlanOverridesTheNumberOfJobs) {
  TestQueue queue = filled({.tests = {planned("a", 2), planned("b", 2)}, .jobs = 2}, {.jobs = 4});
  EXPECT_THAT(take_all(queue), ElementsAre(0));
}

TEST(TestQueueTest, GivesEachRankItsOwnKey) {
  TestQueue queue = filled({.tests = {planned("a", 2), planned("b", 3)}});
  take_all(queue);
  const auto first = queue.begin(0), second = queue.begin(1);
  EXPECT_EQ(second, first + 2);
}

TEST(TestQueueTest, RetriesAFailedTestWhileItHasAttempts) {
  TestQueue queue = filled({.tests = {planned("a", 1)}}, {.jobs = 100, .attempts_max = 2});
  take_all(queue);
  queue.begin(0);
  EXPECT_EQ(queue.attempt_ended(0, result_of(TestStatus::kFailed, 1)), AfterAttempt::kTriedAgain);
  EXPECT_FALSE(queue.is_empty());
  EXPECT_THAT(take_all(queue), ElementsAre(0));
  queue.begin(0);
  EXPECT_EQ(queue.attempt_ended(0, result_of(TestStatus::kFailed, 2)), AfterAttempt::kLast);
  EXPECT_THAT(take_all(queue), IsEmpty());
  EXPECT_TRUE(queue.is_empty());
  EXPECT_FALSE(queue.at(0).done);
  EXPECT_EQ(queue.finish(0).size(), 2u);
  EXPECT_TRUE(queue.at(0).done);
}

TEST(TestQueueTest, DoesNotRetryPassedOrSkippedTests) {
  for (const auto status : {TestStatus::kPassed, TestStatus::kSkipped, TestStatus::kInterrupted}) {
    TestQueue queue = filled({.tests = {planned("a", 1)}}, {.jobs = 100, .attempts_max = 2});
    take_all(queue);
    queue.begin(0);
    EXPECT_EQ(queue.attempt_ended(0, result_of(status)), AfterAttempt::kLast) << text_of(status);
  }
}

TEST(TestQueueTest, RerunsTestsAloneIfTheirHostDied) {
  TestQueue queue = filled({.tests = {planned("a", 1), planned("b", 1), planned("c", 1, 1)}});
  take_all(queue);
  for (std::size_t item = 0; item < 3; ++item) queue.begin(item);
  queue.host_lost({{0, true}, {1, true}});
  for (std::size_t item : {0u, 1u}) {
    EXPECT_EQ(queue.attempt_ended(item, result_of(TestStatus::kFailed)), AfterAttempt::kNotCounted);
    EXPECT_TRUE(queue.at(item).alone);
    EXPECT_THAT(queue.at(item).attempts, IsEmpty());
  }
  EXPECT_THAT(take_all(queue), IsEmpty()) << "the third still runs";
  EXPECT_EQ(queue.attempt_ended(2, result_of(TestStatus::kPassed)), AfterAttempt::kLast);
  EXPECT_THAT(take_all(queue), ElementsAre(0));
  queue.begin(0);
  queue.host_lost({{0, true}});
  EXPECT_EQ(queue.attempt_ended(0, result_of(TestStatus::kFailed)), AfterAttempt::kLast)
      << "alone there, it is the cause";
  EXPECT_FALSE(queue.at(0).alone);
  EXPECT_THAT(take_all(queue), ElementsAre(1));
}

TEST(TestQueueTest, RerunsATestThatNeverReachedItsHost) {
  TestQueue queue = filled({.tests = {planned("a", 1)}});
  take_all(queue);
  queue.begin(0);
  queue.host_lost({{0, false}});
  EXPECT_EQ(queue.attempt_ended(0, result_of(TestStatus::kFailed)), AfterAttempt::kNotCounted);
}

TEST(TestQueueTest, TakesAllTestsThatWaitForAHost) {
  TestQueue queue = filled({.tests = {planned("a", 1), planned("b", 1, 1), planned("c", 1)}});
  for (const std::size_t item : take_all(queue)) queue.wait_for_host(item);
  EXPECT_FALSE(queue.is_empty());
  EXPECT_THAT(queue.take_waiting(0), ElementsAre(0, 2));
  EXPECT_THAT(queue.take_waiting(0), IsEmpty());
  EXPECT_THAT(queue.take_waiting(1), ElementsAre(1));
}

TEST(TestQueueTest, DoesNotWaitForTestsGivenUp) {
  TestQueue queue = filled({.tests = {planned("a", 1)}});
  take_all(queue);
  EXPECT_FALSE(queue.is_empty());
  queue.give_up(0);
  EXPECT_TRUE(queue.is_empty());
}

TEST(TestQueueTest, WaitsOnlyForRunningTestsAfterStop) {
  TestQueue queue = filled({.tests = {planned("a", 1), planned("b", 1), planned("c", 50)}},
                           {.jobs = 2, .attempts_max = 2});
  EXPECT_THAT(take_all(queue), ElementsAre(0, 1));
  queue.begin(0);
  queue.wait_for_host(1);
  queue.host_lost({{0, false}});
  queue.stop();
  EXPECT_THAT(queue.take_waiting(0), IsEmpty());
  EXPECT_FALSE(queue.is_empty());
  EXPECT_EQ(queue.attempt_ended(0, result_of(TestStatus::kFailed)), AfterAttempt::kLast);
  EXPECT_EQ(queue.at(0).attempts.size(), 1u);
  EXPECT_TRUE(queue.is_empty());
  EXPECT_THAT(take_all(queue), IsEmpty());
}

}  // namespace
}  // namespace distrun
