// The runner with tests that misbehave (misbehaving.cc), on real test hosts and ranks.
#include <csignal>
#include <filesystem>

#include "testsuites/harness/protocol/rank_variables.h"
#include "testsuites/harness/test/runner_fixture.h"

namespace distrun {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::Field;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

class SelfTest : public testing::RunnerFixture {
 protected:
  SelfTest() : RunnerFixture(SELFTEST_PROGRAM, "selftest.") {
    ::setenv("SELFTEST_FOLDER", folder_.path().c_str(), 1);
  }

  ~SelfTest() override {
    const std::string own = std::filesystem::path(folder_.path()).filename();
    for (const char* shared : {"/dev/shm", "/tmp"}) {
      std::error_code ignored;
      for (const auto& entry : std::filesystem::directory_iterator(shared, ignored)) {
        const std::string name = entry.path().filename();
        if (name.starts_with("selftest_" + own)) std::filesystem::remove(entry.path(), ignored);
      }
    }
  }

  // Expects that the test failed because rank 1 ended like this.
  void expect_fails(const std::string& id, RankStatus status,
                    const ::testing::Matcher<const std::string&>& reason) {
    const auto result = run_one(id);
    EXPECT_EQ(result.status, TestStatus::kFailed);
    EXPECT_THAT(result.reason, reason);
    ASSERT_FALSE(result.attempts.empty());
    ASSERT_GT(result.attempts[0].ranks.size(), 1u);
    EXPECT_EQ(result.attempts[0].ranks[1].status, status);
    EXPECT_EQ(result.attempts[0].culprits.at(0), 1);
    EXPECT_EQ(summary_.failed, 1);
  }

  // Whether the last attempt ran alone: its host did not die.
  static bool has_run(const TestResult& result) {
    const auto has = [&](const char* words) {
      return result.reason.find(words) != std::string::npos;
    };
    return !has("the process that forked it is lost") && !has("could not be started");
  }
};

TEST_F(SelfTest, GoodTestsPass) {
  const auto result = run_one("Well.test_passes");
  EXPECT_EQ(result.status, TestStatus::kPassed) << result.reason;
  ASSERT_THAT(result.attempts, SizeIs(1));
  EXPECT_THAT(result.attempts[0].ranks, SizeIs(4));
  EXPECT_THAT(result.attempts[0].ranks, Each(Field(&RankResult::assertions, 3)));
  EXPECT_THAT(result.attempts[0].ranks, Each(Field(&RankResult::status, RankStatus::kPassed)));
  EXPECT_THAT(result.attempts[0].ranks, Each(Field(&RankResult::output, "")));
}

TEST_F(SelfTest, RanksHaveTimesInOrder) {
  const WallTime before = wall_time_now();
  const auto result = run_one("Leaves.test_without_one_collective");
  ASSERT_THAT(result.attempts, SizeIs(1));
  const AttemptResult& attempt = result.attempts[0];
  EXPECT_LE(before, attempt.began);
  for (const RankResult& rank : attempt.ranks) {
    const auto& operations = rank.times.operations;
    ASSERT_THAT(operations, SizeIs(rank.rank == 2 ? 4 : 5)) << rank.rank;
    EXPECT_LE(attempt.began, rank.began);
    EXPECT_LE(rank.began, operations.front().began);
    EXPECT_LE(operations.back().ended, rank.ended);
    for (const AssertionFailure& failure : rank.failures) {
      EXPECT_LE(operations.back().ended, failure.at);
      EXPECT_LE(failure.at, rank.ended);
    }
  }
}

TEST_F(SelfTest, RanksMeetAndHaveTemporaryFolders) {
  const auto result = run_one("Well.test_meets");
  EXPECT_EQ(result.status, TestStatus::kPassed) << result.reason;
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(SelfTest, AStoreKeepsItsKeysBetweenCalls) {
  const auto result = run_one("Well.test_store_keeps_all");
  EXPECT_EQ(result.status, TestStatus::kPassed) << result.reason;
}

TEST_F(SelfTest, IgnoresGtestOutput) {
  TestRunner::Options its = options();
  its.environment.set("GTEST_OUTPUT", "xml:" + folder_.path() + "/");
  EXPECT_THAT(run("Well.test_passes", its),
              ElementsAre(Field(&TestResult::status, TestStatus::kPassed)));
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(SelfTest, ThirtyTwoRanksRunOnTwoCores) {
  const auto result = run_one("Well.test_32_ranks");
  EXPECT_EQ(result.status, TestStatus::kPassed) << result.reason;
}

TEST_F(SelfTest, IsSkippedIfAllRanksSkip) {
  const auto result = run_one("Well.test_is_skipped_by_all");
  EXPECT_EQ(result.status, TestStatus::kSkipped);
  EXPECT_THAT(result.reason, HasSubstr("not today"));
  EXPECT_EQ(summary_.skipped, 1);
}

TEST_F(SelfTest, SkipsTestsOfNcclIfItIsNotRegistered) {
  const auto result = run_one("NeedsNccl.test_is_skipped");
  EXPECT_EQ(result.status, TestStatus::kSkipped);
  EXPECT_THAT(result.reason, HasSubstr("backend nccl is not registered"));
}

TEST_F(SelfTest, DivergesIfOneRankSkips) {
  const auto result = run_one("Fails.test_skips_alone");
  EXPECT_EQ(result.status, TestStatus::kFailed);
  EXPECT_EQ(result.reason, "diverged: rank 1 skipped, ranks 0, 2 did not");
}

TEST_F(SelfTest, AnExpectedDeathPassesAndIsRequired) {
  EXPECT_EQ(run_one("Well.test_dies_as_expected").status, TestStatus::kPassed);
  EXPECT_EQ(run_one("Fails.test_survives_what").reason,
            "rank 1 failed: expected signal SIGKILL (9), but it ended with exit code 0");
}

TEST_F(SelfTest, PeersOfADeadRankGetAnErrorInTime) {
  const auto result = run_one("Well.test_peers_of_the_dead");
  EXPECT_EQ(result.status, TestStatus::kPassed) << result.reason;
}

TEST_F(SelfTest, ARankWithoutTheExpectedErrorEndsInTime) {
  const auto result = run_one("Fails.test_no_error");
  EXPECT_THAT(result.reason,
              ContainsRegex("^rank 1 failed: misbehaving.cc:[0-9]+: wait_for_ever\\(\\) "
                            "has not returned within 0.1 s"));
  ASSERT_THAT(result.attempts, SizeIs(1));
  const RankResult& rank = result.attempts[0].ranks.at(1);
  EXPECT_EQ(rank.status, RankStatus::kFailed);
  EXPECT_EQ(rank.assertions, 2);
  EXPECT_THAT(rank.stands_at,
              AllOf(StartsWith("no collective has run"), HasSubstr("wait_for_ever")));
}

TEST_F(SelfTest, NamesEveryDeadlySignalWithoutWaitingForPeers) {
  const auto results = run("Dies.", options());
  EXPECT_THAT(results, SizeIs(16));
  for (const TestResult& result : results) {
    const std::string signal = result.test.id.substr(result.test.id.rfind("_of_") + 4);
    EXPECT_EQ(result.status, TestStatus::kFailed) << signal;
    EXPECT_THAT(result.reason, StartsWith("rank 1 crashed: signal " + signal + " ("));
    ASSERT_THAT(result.attempts, SizeIs(1));
    EXPECT_EQ(result.attempts[0].ranks[0].status, RankStatus::kTimedOut) << signal;
    EXPECT_LT(result.time, seconds(30)) << signal;
  }
}

TEST_F(SelfTest, ACrashPrintsItsStack) {
  const auto result = run_one("Dies.test_of_SIGSEGV");
  ASSERT_THAT(result.attempts, SizeIs(1));
  EXPECT_THAT(result.attempts[0].ranks[1].output, HasSubstr("die_of"));
}

TEST_F(SelfTest, NamesAnExceptionThatNothingCatches) {
  expect_fails("Fails.test_a_thread_throws", RankStatus::kFailed,
               "rank 1 failed: uncaught exception: std::runtime_error: on purpose");
  EXPECT_THAT(
      run_one("Fails.test_a_thread_throws").attempts.at(0).ranks.at(1).output,
      MatchesRegex("distrun_selftest: std::runtime_error: on purpose\n"
                   "#0 [a-zA-Z_:]*test_a_thread_throws_Test::TestBody::\\{lambda\\}[a-z:()]* "
                   "\\(misbehaving.cc:[0-9]+\\)\n"));
}

// Its stack begins in the thread's function.
TEST_F(SelfTest, ACrashOfAThreadPrintsTheStackOfTheThread) {
  expect_fails("Fails.test_a_thread_crashes", RankStatus::kCrashed,
               "rank 1 crashed: signal SIGSEGV (11)");
  EXPECT_THAT(run_one("Fails.test_a_thread_crashes").attempts.at(0).ranks.at(1).output,
              AllOf(ContainsRegex("#0 [a-zA-Z_:()]*read_null \\(misbehaving.cc:[0-9]+\\)\n"),
                    Not(HasSubstr("TestBody")), Not(HasSubstr("thread_routine"))));
}

// LibTorch adds a line per frame, mostly without a name.
TEST_F(SelfTest, AnErrorAboutALostPeerIsNotBuriedInFrames) {
  const auto result = run_one("Fails.test_leaves_its_peers");
  EXPECT_EQ(result.status, TestStatus::kFailed);
  EXPECT_EQ(result.reason, "rank 1 exited during its test: exit code 5");
  ASSERT_THAT(result.attempts, SizeIs(1));
  bool has_an_error = false;
  for (const RankResult& rank : result.attempts[0].ranks) {
    for (const AssertionFailure& failure : rank.failures) {
      EXPECT_THAT(failure.message, Not(HasSubstr("frame #")));
      if (failure.message.find("all_reduce") != std::string::npos) has_an_error = true;
    }
  }
  EXPECT_TRUE(has_an_error) << "no peer has told of the loss";
}

TEST_F(SelfTest, ARankThatExitsDuringItsTestFailsWithAnyCode) {
  expect_fails("Exits.test_0_before", RankStatus::kExited,
               "rank 1 exited during its test: exit code 0");
  expect_fails("Exits.test_5", RankStatus::kExited, "rank 1 exited during its test: exit code 5");
  expect_fails("Forks.test_0", RankStatus::kExited, "rank 1 exited during its test: exit code 0");
}

TEST_F(SelfTest, NamesHungRanksWithTheirStacks) {
  expect_fails("Hangs.test_in_a_wait", RankStatus::kTimedOut,
               StartsWith("timed out: rank 1 hung in distrun::wait_for_ever (misbehaving.cc:"));
  const auto waits = run_one("Hangs.test_in_a_wait");
  EXPECT_THAT(waits.attempts.at(0).ranks.at(1).stands_at, HasSubstr("wait_for_ever"));
  const auto spins = run_one("Hangs.test_spinning");
  EXPECT_THAT(spins.attempts.at(0).ranks.at(1).stands_at, HasSubstr("test_spinning"));
  const auto stopped = run_one("Hangs.test_stopped");
  EXPECT_THAT(stopped.attempts.at(0).ranks.at(1).stands_at,
              AllOf(StartsWith("it is stopped (SIGSTOP)\n"), Not(HasSubstr("not answer"))));
  EXPECT_EQ(stopped.attempts[0].ranks[1].told, "it is stopped (SIGSTOP)\n");
  EXPECT_EQ(stopped.attempts[0].ranks[0].stands_at, "");
}

TEST_F(SelfTest, ARankThatSleepsIsLate) {
  expect_fails("Hangs.test_asleep", RankStatus::kTimedOut,
               StartsWith("timed out: rank 1 hung in "));
}

TEST_F(SelfTest, NamesTheCollectiveARankHangsIn) {
  const auto result = run_one("Hangs.test_in_a_collective");
  EXPECT_EQ(result.reason,
            "timed out: ranks 0-2 hung: rank 1 had not entered collective 1 of the default group, "
            "allreduce of Float [3, 2], in which ranks 0, 2 waited");
  ASSERT_THAT(result.attempts, SizeIs(1));
  EXPECT_THAT(result.attempts[0].where.line,
              AllOf(StartsWith("rank 1 in "), HasSubstr("; ranks 0, 2 wait in ")));
  EXPECT_THAT(result.attempts[0].where.stacks,
              AllOf(HasSubstr("wait_for_ever"), HasSubstr("distrun::all_reduce")));
  const auto& ranks = result.attempts[0].ranks;
  EXPECT_EQ(ranks.at(0).told,
            "allreduce, number 1 of group default_pg, has not completed: Float [3, 2]\n");
  for (const std::size_t rank : {0u, 2u}) {
    EXPECT_THAT(
        ranks.at(rank).stands_at,
        AllOf(StartsWith(
                  "allreduce, number 1 of group default_pg, has not completed: Float [3, 2]\n"),
              HasSubstr("distrun::all_reduce")));
  }
  EXPECT_THAT(ranks.at(1).stands_at,
              AllOf(Not(HasSubstr("allreduce")), HasSubstr("wait_for_ever")));
  ASSERT_THAT(ranks[0].collectives, SizeIs(1)) << "it timed out, but could still answer";
  EXPECT_EQ(ranks[0].collectives[0].op, "allreduce");
  EXPECT_THAT(ranks[1].collectives, IsEmpty());
  const auto& waiting = result.attempts.at(0).ranks.at(0).times.operations;
  ASSERT_THAT(waiting, SizeIs(1));
  EXPECT_EQ(waiting[0].op, "allreduce");
  EXPECT_EQ(waiting[0].ended, std::nullopt);
}

// Rank 0 blocks signals, so it answers late. Meanwhile rank 1, asked in its sleep, must not
// continue.
TEST_F(SelfTest, AskingDoesNotWakeASleepingRank) {
  const auto result = run_one("Hangs.test_sleeps_between_collectives");
  EXPECT_EQ(result.reason,
            "timed out: ranks 0-2 hung: rank 1 had not entered collective 2 of the default group, "
            "allreduce of Float [3], in which ranks 0, 2 waited");
  ASSERT_THAT(result.attempts, SizeIs(1));
  EXPECT_THAT(result.attempts[0].culprits, ElementsAre(1, 0, 2));
  const auto& ranks = result.attempts[0].ranks;
  EXPECT_THAT(ranks.at(0).stands_at, HasSubstr("test_sleeps_between"));
  EXPECT_THAT(ranks.at(1).stands_at, HasSubstr("test_sleeps_between"));
  EXPECT_EQ(ranks.at(1).output, "");
  EXPECT_THAT(ranks.at(2).stands_at, HasSubstr("distrun::all_reduce"));
  for (const RankResult& rank : ranks) {
    EXPECT_EQ(rank.status, RankStatus::kTimedOut);
    ASSERT_THAT(rank.collectives, SizeIs(1)) << "rank " << rank.rank;
    EXPECT_EQ(rank.collectives[0].count, rank.rank == 1 ? 1 : 2);
  }
}

TEST_F(SelfTest, ReportsAHangAfterThousandsOfCollectives) {
  const auto result = run_one("Hangs.test_late");
  EXPECT_THAT(result.reason, HasSubstr("rank 1 had not entered collective 1 of the default group"));
  for (const RankResult& rank : result.attempts.at(0).ranks) {
    EXPECT_THAT(rank.stands_at, HasSubstr("test_late")) << "rank " << rank.rank;
  }
}

// The rank exits, and its peers lose their connections.
TEST_F(SelfTest, BlamesARankThatSkipsACollectiveForOtherFailures) {
  const auto result = run_one("Leaves.test_without_one_collective");
  EXPECT_THAT(result.reason,
              ContainsRegex("^ranks disagree: rank 2 had not (run|entered) collective 5 of the "
                            "default group, allreduce of Float \\[3\\], .*; rank [01] failed: "));
  EXPECT_EQ(result.attempts.at(0).culprits.front(), 2);
}

TEST_F(SelfTest, RanksThatRanDifferentCollectivesFail) {
  EXPECT_EQ(
      run_one("Disagrees.test_about_dtypes").reason,
      "ranks disagree: rank 0 ran allreduce of Float [8] as collective 1 of the default group, "
      "rank 1 ran allreduce of Double [4]; declare collectives_may_differ if this is intended");
  const auto allowed = run_one("Disagrees.test_allowed_dtypes");
  EXPECT_EQ(allowed.status, TestStatus::kPassed);
  EXPECT_THAT(allowed.reason, StartsWith("ranks disagree, which collectives_may_differ allows: "));
  const auto sizes = run_one("Disagrees.test_about_sizes");
  EXPECT_THAT(sizes.reason,
              HasSubstr(": rank 1 ran allreduce of Float [5] as collective 1 of the default group, "
                        "ranks 0, 2 ran allreduce of Float [4]"));
  EXPECT_EQ(sizes.attempts.at(0).culprits.front(), 1);
}

TEST_F(SelfTest, ARankThatWaitsForAFailedOneIsAConsequence) {
  const auto result = run_one("Hangs.test_for_one");
  EXPECT_THAT(result.reason, AllOf(StartsWith("rank 1 failed: misbehaving.cc:")));
  EXPECT_THAT(result.attempts.at(0).culprits, ElementsAre(1, 0, 2));
  EXPECT_THAT(result.attempts[0].ranks[2].stands_at, HasSubstr("wait_for_ever"));
  EXPECT_LT(result.time, seconds(30));
}

TEST_F(SelfTest, ReportsAFailedExpectationWithPlaceAndOutput) {
  const auto result = run_one("Fails.test_one_expect");
  EXPECT_THAT(result.reason, ContainsRegex("^rank 2 failed: misbehaving.cc:[0-9]+: Expected: "));
  ASSERT_THAT(result.attempts, SizeIs(1));
  const auto& ranks = result.attempts[0].ranks;
  EXPECT_EQ(ranks[0].status, RankStatus::kPassed);
  ASSERT_THAT(ranks[2].failures, SizeIs(1));
  EXPECT_THAT(ranks[2].failures[0].file, EndsWith("misbehaving.cc"));
  EXPECT_THAT(ranks[2].failures[0].message, HasSubstr("on purpose"));
  EXPECT_THAT(ranks[2].output, AllOf(HasSubstr("rank 2 was here\n"), HasSubstr("and on stderr\n")));
}

TEST_F(SelfTest, AnExceptionIsAFailure) {
  const auto result = run_one("Fails.test_throws");
  EXPECT_EQ(result.status, TestStatus::kFailed);
  EXPECT_THAT(result.reason, AllOf(StartsWith("rank 1 failed: "), HasSubstr("on purpose")));
  EXPECT_THAT(result.attempts.at(0).ranks.at(1).failures.at(0).message, HasSubstr("on purpose"));
}

TEST_F(SelfTest, NoAssertionIsAFailure) {
  expect_fails("Fails.test_without", RankStatus::kFailed,
               "rank 1 failed: made no assertion: a test that asserts nothing cannot fail");
}

TEST_F(SelfTest, ShortensMuchOutput) {
  const auto result = run_one("Well.test_prints_100_MB");
  EXPECT_EQ(result.status, TestStatus::kPassed) << result.reason;
  EXPECT_THAT(result.attempts.at(0).ranks.at(0).output, HasSubstr("bytes omitted"));
  EXPECT_GT(result.attempts[0].ranks[0].output_lost.lines, 9'900u);
  EXPECT_LT(result.attempts[0].ranks[0].output.size(), 1'000'000u);
}

TEST_F(SelfTest, GarbageInTheResultChannelIsAFailure) {
  expect_fails("Fails.test_writes_garbage", RankStatus::kFailed,
               "rank 1 failed: wrote into the result channel");
}

TEST_F(SelfTest, ClosedDescriptorsAreAFailure) {
  expect_fails("Fails.test_closes", RankStatus::kFailed,
               "rank 1 failed: closed the descriptor of its result channel");
}

TEST_F(SelfTest, FindsNamesAndKillsADaemon) {
  const auto result = run_one("Fails.test_leaves_a_daemon");
  EXPECT_THAT(result.reason,
              ContainsRegex("^rank 1 failed: leaked processes: [0-9]+ \\(the_daemon\\)$"));
}

TEST_F(SelfTest, AThreadThatIsLeftIsAFailureThatNamesItsFunction) {
  expect_fails("Leaks.test_a_thread", RankStatus::kFailed,
               ContainsRegex("^rank 1 failed: left a thread: worker, in .*wait_for_ever"));
}

TEST_F(SelfTest, ADescriptorThatIsLeftIsAFailureThatNamesItsAddress) {
  expect_fails("Leaks.test_a_socket", RankStatus::kFailed,
               ContainsRegex("^rank 1 failed: left descriptor [0-9]+: socket 127.0.0.1:[0-9]+$"));
}

TEST_F(SelfTest, SharedMemoryAndFilesThatAreLeftAreFailures) {
  for (const auto& [test, left] :
       {std::pair("test_shared_memory", "shared memory: /dev/shm/selftest_"),
        {"test_mapped_memory", "shared memory: /dev/shm/selftest_"},
        {"test_a_file", "a file: /tmp/selftest_"}}) {
    const std::string reason = run_one(std::string("Leaks.") + test).reason;
    EXPECT_THAT(reason, StartsWith("rank 1 failed: left " + std::string(left)));
  }
}

TEST_F(SelfTest, WhatEndsWithTheTestIsNotLeft) {
  EXPECT_EQ(run_one("Leaks.test_nothing").status, TestStatus::kPassed);
  EXPECT_EQ(run_one("Leaks.test_a_group").reason, "");
}

TEST_F(SelfTest, LeaksOtherThanProcessesCanBeIgnored) {
  TestRunner::Options its = options();
  its.environment.set(kTestIgnoreLeaksVariable, "1");
  EXPECT_EQ(run("Leaks.test_a_thread", its).at(0).status, TestStatus::kPassed);
}

TEST_F(SelfTest, ReplacesADeadHostAndReportsTheTest) {
  TestRunner::Options its = options();
  its.keeps_order = true;
  its.jobs = 2;
  const auto results = run("Fails.", its);
  ASSERT_THAT(results, SizeIs(13));
  EXPECT_EQ(results[0].test.id, "selftest.Fails.test_kills_the_host");
  EXPECT_THAT(results[0].reason, HasSubstr("the process that forked it is lost"));
  for (const TestResult& result : results) {
    const bool killer = result.test.id.ends_with("kills_the_host");
    EXPECT_EQ(result.status, TestStatus::kFailed) << result.test.id;
    EXPECT_EQ(has_run(result), !killer) << result.test.id << ": " << result.reason;
  }
  EXPECT_THAT(notices_, ElementsAre(HasSubstr("failed: signal SIGKILL (9)")));
}

TEST_F(SelfTest, ReplacesAHostThatDoesNotAnswer) {
  TestRunner::Options its = options();
  its.keeps_order = true;
  its.jobs = 2;
  its.limits.ending = seconds(3);
  const auto results = run("Hangs.test_stop", its);
  ASSERT_THAT(results, SizeIs(2));
  EXPECT_EQ(results[0].test.id, "selftest.Hangs.test_stops_the_host");
  EXPECT_THAT(results[0].reason, EndsWith("crashed: the process that forked it is lost"));
  EXPECT_EQ(results[1].reason, "timed out: rank 1 stopped (SIGSTOP)");
  EXPECT_THAT(notices_, ElementsAre(EndsWith("failed: it does not answer")));
}

// Any test on the host may have killed it: each runs again, alone.
TEST_F(SelfTest, OnlyTheTestThatKilledTheHostFails) {
  TestRunner::Options its = options();
  its.jobs = 100;
  its.limits.grace = its.limits.answer = milliseconds(50);  // They add up.
  its.limits.ending = seconds(2);
  const auto results = run(
      [&](const auto& tests) {
        auto all = plan(tests, "");
        // Noticing that takes seconds, for which the other tests would have to wait.
        std::erase_if(all, [](const PlannedTest& one) {
          return one.test.id == "selftest.Hangs.test_stops_the_host";
        });
        for (PlannedTest& one : all) {
          if (one.test.id.starts_with("selftest.Hangs.")) one.timeout = milliseconds(500);
        }
        return all;
      },
      its);
  EXPECT_THAT(results, SizeIs(planned_));
  std::set<std::string> passed;
  for (const TestResult& result : results) {
    const bool killer = result.test.id == "selftest.Fails.test_kills_the_host";
    EXPECT_EQ(has_run(result), !killer) << result.test.id << ": " << result.reason;
    if (result.status == TestStatus::kPassed) passed.insert(result.test.id.substr(9));
  }
  EXPECT_THAT(passed, IsSupersetOf({"Well.test_passes", "Well.test_meets", "Well.test_32_ranks",
                                    "Well.test_dies_as_expected", "Well.test_prints_100_MB"}));
}

TEST_F(SelfTest, RetriesAFailureAndReportsItAsFlaky) {
  TestRunner::Options its = options();
  its.attempts_max = 3;
  const auto flaky = run("Well.test_is_flaky", its);
  ASSERT_THAT(flaky, SizeIs(1));
  EXPECT_EQ(flaky[0].status, TestStatus::kFlaky);
  EXPECT_THAT(flaky[0].attempts, SizeIs(2));
  EXPECT_EQ(summary_.flaky, 1);
  const auto fails = run("Fails.test_throws", its);
  EXPECT_EQ(fails.at(0).status, TestStatus::kFailed);
  EXPECT_THAT(fails[0].attempts, SizeIs(3));
}

TEST_F(SelfTest, FailFastStartsNoMoreTests) {
  TestRunner::Options its = options();
  its.fail_fast = true;
  its.jobs = 1;
  its.keeps_order = true;
  const auto results = run("Exits.", its);
  ASSERT_THAT(results, AllOf(SizeIs(planned_), SizeIs(Gt(1))));
  EXPECT_EQ(results[0].status, TestStatus::kFailed);
  for (std::size_t i = 1; i < results.size(); ++i) {
    EXPECT_EQ(results[i].status, TestStatus::kInterrupted);
    EXPECT_THAT(results[i].attempts, IsEmpty());
    EXPECT_EQ(results[i].reason, "not started after a failure (--fail-fast)");
  }
}

TEST_F(SelfTest, AnInterruptEndsRunningTests) {
  on_event_ = [](TestRunner& runner, const TestEvent& event) {
    if (std::holds_alternative<AttemptBegun>(event)) runner.interrupt();
  };
  const auto results = run("Hangs.test_in_a_wait", options());
  ASSERT_THAT(results, SizeIs(1));
  EXPECT_EQ(results[0].status, TestStatus::kInterrupted);
}

TEST_F(SelfTest, RanksCanBeFreshPrograms) {
  TestRunner::Options its = options();
  for (const bool fresh : {true, false}) {
    its.fresh = fresh;
    const auto results = run("Well.test_tells_how", its);
    ASSERT_THAT(results, SizeIs(1));
    EXPECT_EQ(results[0].status, TestStatus::kPassed) << results[0].reason;
    EXPECT_THAT(results[0].attempts.at(0).ranks,
                Each(Field(&RankResult::output, fresh ? "executed afresh\n" : "forked\n")));
  }
}

TEST_F(SelfTest, FailsIfTheProgramIsNotATestHost) {
  TestRunner::Options its = options();
  its.programs = {"/bin/true"};
  EXPECT_EQ(problem_of(its),
            "the test program /bin/true failed: it ended without listing its tests (exit code 0); "
            "a test program must link distrun::testing_main");
}

TEST_F(SelfTest, ACrashBeforeMainHasAStack) {
  TestRunner::Options its = options();
  its.programs = {CRASHES_EARLY};
  EXPECT_THAT(
      problem_of(its),
      AllOf(HasSubstr("crashes_early failed: it crashed before it listed its tests: "
                      "signal SIGSEGV (11)\n"),
            HasSubstr("early::read_it (crashes_early.cc:"), Not(HasSubstr("testing_main"))));
}

}  // namespace
}  // namespace distrun
