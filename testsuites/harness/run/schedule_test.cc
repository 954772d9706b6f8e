#include "testsuites/harness/run/schedule.h"

#include <map>
#include <numeric>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distrun {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;

std::vector<std::size_t> take_all(Schedule& schedule) {
  std::vector<std::size_t> ids;
  while (const auto test = schedule.take()) ids.push_back(test->id);
  return ids;
}

TEST(ScheduleTest, LongestTestsGoFirst) {
  Schedule schedule(100);
  schedule.add({.id = 0, .ranks = 2});
  schedule.add({.id = 1, .ranks = 4});
  schedule.add({.id = 2, .ranks = 1, .expected = milliseconds(5)});
  schedule.add({.id = 3, .ranks = 1, .expected = milliseconds(50)});
  EXPECT_THAT(take_all(schedule), ElementsAre(3, 2, 1, 0));
}

TEST(ScheduleTest, EqualTestsKeepTheirOrder) {
  Schedule schedule(1000);
  std::vector<std::size_t> all(100);
  std::iota(all.begin(), all.end(), 0);
  for (const std::size_t id : all) schedule.add({.id = id});
  EXPECT_EQ(take_all(schedule), all);
}

TEST(ScheduleTest, KeepsTheGivenOrderOnRequest) {
  Schedule schedule(100);
  schedule.keep_order();
  schedule.add({.id = 0, .ranks = 2});
  schedule.add({.id = 1, .ranks = 4});
  EXPECT_THAT(take_all(schedule), ElementsAre(0, 1));
}

TEST(ScheduleTest, RunsNoMoreRanksThanJobs) {
  Schedule schedule(4);
  for (std::size_t id = 0; id < 3; ++id) schedule.add({.id = id, .ranks = 2});
  EXPECT_THAT(take_all(schedule), ElementsAre(0, 1));
  schedule.done(1);
  EXPECT_THAT(take_all(schedule), ElementsAre(2));
}

TEST(ScheduleTest, SmallerTestsFillTheGap) {
  Schedule schedule(4);
  schedule.add({.id = 0, .ranks = 3});
  schedule.add({.id = 1, .ranks = 2});
  schedule.add({.id = 2, .ranks = 1});
  EXPECT_THAT(take_all(schedule), ElementsAre(0, 2));
}

TEST(ScheduleTest, SmallerTestsFillGapsRepeatedly) {
  Schedule schedule(4);
  schedule.keep_order();
  for (int round = 0; round < 2 * Schedule::kPassedMax; ++round) {
    schedule.add({.id = 0, .ranks = 3});
    schedule.add({.id = 1, .ranks = 2});
    schedule.add({.id = 2, .ranks = 1});
    ASSERT_THAT(take_all(schedule), ElementsAre(0, 2)) << round;
    schedule.done(0);
    ASSERT_THAT(take_all(schedule), ElementsAre(1)) << round;
    schedule.done(1);
    schedule.done(2);
  }
}

TEST(ScheduleTest, ATestLargerThanTheJobsRunsAlone) {
  Schedule schedule(4);
  schedule.add({.id = 0, .ranks = 32});
  schedule.add({.id = 1, .ranks = 1});
  EXPECT_THAT(take_all(schedule), ElementsAre(0));
  schedule.done(0);
  EXPECT_THAT(take_all(schedule), ElementsAre(1));
}

TEST(ScheduleTest, AnExclusiveTestRunsAlone) {
  Schedule schedule(8);
  schedule.add({.id = 0, .exclusive = true});
  schedule.add({.id = 1});
  EXPECT_THAT(take_all(schedule), ElementsAre(1));
  schedule.done(1);
  EXPECT_THAT(take_all(schedule), ElementsAre(0));
  schedule.add({.id = 2});
  EXPECT_THAT(take_all(schedule), ElementsAre());
  schedule.done(0);
  EXPECT_THAT(take_all(schedule), ElementsAre(2));
}

TEST(ScheduleTest, NoTestStarves) {
  Schedule schedule(4);
  schedule.keep_order();
  schedule.add({.id = 1000, .ranks = 2});
  schedule.add({.id = 1001, .ranks = 4});
  for (std::size_t id = 0; id < 100; ++id) schedule.add({.id = id});
  std::size_t before = 0;
  auto running = take_all(schedule);
  for (; !schedule.is_empty(); ++before) {
    if (running.empty()) FAIL() << "nothing runs";
    if (running.back() == 1001) break;
    schedule.done(running.front());
    running.erase(running.begin());
    for (const auto id : take_all(schedule)) running.push_back(id);
  }
  EXPECT_LE(before, 2u * Schedule::kPassedMax);
}

// Would time out if finding a test that fits scanned all tests.
TEST(ScheduleTest, SchedulesHalfAMillionTestsQuickly) {
  constexpr std::size_t kTests = 500'000;
  Schedule schedule(4);
  for (std::size_t id = 0; id < kTests; ++id) schedule.add({.id = id, .ranks = 3});
  for (std::size_t id = 0; id < kTests; ++id) {
    ASSERT_THAT(take_all(schedule), ElementsAre(id));
    schedule.done(id);
  }
  EXPECT_TRUE(schedule.is_empty());
}

TEST(ScheduleTest, TestsAddedLaterTakeTheirPlace) {
  Schedule schedule(4);
  schedule.add({.id = 0, .ranks = 4, .expected = milliseconds(5)});
  schedule.add({.id = 1, .ranks = 4, .expected = milliseconds(1)});
  EXPECT_THAT(take_all(schedule), ElementsAre(0));
  schedule.done(0);
  schedule.add({.id = 0, .ranks = 4, .expected = milliseconds(5)});
  schedule.add({.id = 2, .ranks = 4, .expected = milliseconds(5)});
  EXPECT_THAT(take_all(schedule), ElementsAre(0));
  schedule.done(0);
  EXPECT_THAT(take_all(schedule), ElementsAre(2));
}

// Any mix of tests: all run, within the jobs, exclusive ones alone.
TEST(ScheduleRandomTest, AllRunWithinTheJobs) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const int jobs = 1 + static_cast<int>(random() % 8);
    Schedule schedule(jobs);
    const std::size_t tests = random() % 60;
    for (std::size_t id = 0; id < tests; ++id) {
      schedule.add({.id = id,
                    .ranks = 1 + static_cast<int>(random() % 6),
                    .exclusive = random() % 10 == 0,
                    .expected = milliseconds(random() % 3)});
    }
    std::map<std::size_t, ScheduledTest> running;
    std::size_t run = 0;
    while (!schedule.is_empty()) {
      while (const auto test = schedule.take()) running[test->id] = *test;
      ASSERT_FALSE(running.empty()) << seed;
      int ranks = 0;
      bool exclusive = false;
      for (const auto& [id, test] : running) {
        ranks += test.ranks;
        exclusive = exclusive || test.exclusive;
      }
      if (running.size() > 1) {
        EXPECT_LE(ranks, jobs) << seed;
        EXPECT_FALSE(exclusive) << seed;
      }
      auto ends = running.begin();
      std::advance(ends, random() % running.size());
      schedule.done(ends->first);
      running.erase(ends);
      ++run;
    }
    EXPECT_EQ(run, tests) << seed;
  }
}

}  // namespace
}  // namespace distrun
