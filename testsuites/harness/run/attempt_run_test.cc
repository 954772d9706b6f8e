// Tests whose ranks misbehave (fake_ranks.h), and their results.
#include "testsuites/harness/run/attempt_run.h"

#include "testsuites/harness/test/fake_host.h"

namespace distrun {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;
using testing::texts;

class RankTest : public testing::FakeHostFixture {
 protected:
  RankResult rank(const std::string& id, const TestRunner::Options& options) {
    const auto results = run(the({id}), options);
    EXPECT_THAT(results, SizeIs(1));
    result_ = results.empty() ? TestResult{} : results[0];
    if (result_.attempts.empty() || result_.attempts[0].ranks.empty()) return {};
    return result_.attempts[0].ranks[0];
  }
  RankResult rank(const std::string& id) { return rank(id, options()); }

  TestResult result_;
};

TEST_F(RankTest, PassesAndReceivesItsVariables) {
  TestRunner::Options its = options();
  its.seed = 77;
  const auto results = run(
      [&](const auto& tests) {
        auto chosen = plan(tests, "tells_its_variables");
        chosen.at(0).backend = "fake";
        return chosen;
      },
      its);
  ASSERT_THAT(texts(results), ElementsAre("tells_its_variables passed"));
  EXPECT_THAT(
      results[0].attempts[0].ranks[0].output,
      AllOf(HasSubstr("\nRANK=0\n"), HasSubstr("\nWORLD_SIZE=1\n"),
            HasSubstr("\nDISTRUN_TEST_SEED=77\n"), HasSubstr("\nDISTRUN_TEST_BACKEND=fake\n")));
}

TEST_F(RankTest, LearnsThatAnotherRankIsDebugged) {
  TestRunner::Options its = options();
  EXPECT_EQ(rank("tells_whether_somebody_looks", its).output, "\n");
  its.rank_under = 1;
  EXPECT_EQ(rank("tells_whether_somebody_looks", its).output, "1\n");
}

TEST_F(RankTest, KeepsAHundredFailures) {
  const auto failures = rank("fails_1000_times").failures;
  ASSERT_THAT(failures, SizeIs(101));
  EXPECT_EQ(failures[99].message, "on purpose");
  EXPECT_EQ(failures[100].message, "900 more, which are not kept");
  EXPECT_EQ(result_.status, TestStatus::kFailed);
}

TEST_F(RankTest, APartialFrameFailsTheRank) {
  rank("tells_half_a_frame");
  EXPECT_EQ(result_.reason, "rank 0 failed: wrote into the result channel");
}

TEST_F(RankTest, APartialFrameOfACrashedRankIsIgnored) {
  EXPECT_EQ(rank("is_killed_while_it_tells").status, RankStatus::kCrashed);
}

TEST_F(RankTest, ARankThatAnsweredIsKilledAtOnce) {
  TestRunner::Options its = options();
  its.limits.grace = milliseconds(0);
  its.limits.answer = seconds(90);
  EXPECT_THAT(rank("hangs_and_says_where", its).stands_at,
              AllOf(StartsWith("here\n"), HasSubstr("(fake_test_host")));
  EXPECT_LT(result_.time, seconds(80));
}

TEST_F(RankTest, ARankThatDoesNotAnswerIsDescribedFromOutside) {
  TestRunner::Options its = options();
  its.limits.grace = its.limits.answer = milliseconds(0);
  EXPECT_THAT(rank("hangs_silently", its).stands_at,
              AllOf(StartsWith("it does not answer\n"), HasSubstr("(fake_test_host")));
}

TEST_F(RankTest, ResultsAfterTheTimeOutDoNotCount) {
  timeout_ = milliseconds(200);
  TestRunner::Options its = options();
  its.limits.answer = seconds(90);
  for (const char* test : {"passes_when_asked", "fails_when_asked"}) {
    const RankResult late = rank(test, its);
    EXPECT_EQ(late.status, RankStatus::kTimedOut) << test;
    EXPECT_EQ(late.end, "too late: exit code 0") << test;
    EXPECT_THAT(result_.reason, StartsWith("timed out: rank 0 hung in ")) << test;
  }
}

TEST_F(RankTest, ARankThatDoesNotEndTimesOut) {
  timeout_ = milliseconds(200);
  EXPECT_EQ(rank("is_done_and_hangs").status, RankStatus::kTimedOut);
  EXPECT_EQ(result_.reason, "rank 0 did not exit after its test finished");
  EXPECT_GE(result_.attempts.at(0).time, timeout_);
}

// The leaked process has no mark, and is not searched for elsewhere.
TEST_F(RankTest, DoesNotWaitForOutputThatALeakedProcessHoldsOpen) {
  left_expected_ = 1;
  EXPECT_EQ(rank("leaves_its_output_open").output, "printed\n");
  EXPECT_EQ(result_.reason,
            "rank 0 failed: leaked processes: a process that holds its output and was not "
            "found");
}

TEST_F(RankTest, ARankThatEndedBeforeItsPeerFailedWasNotKilled) {
  left_expected_ = 1;
  TestRunner::Options its = options();
  its.limits.grace = its.limits.answer = milliseconds(0);
  const auto first = rank("leaves_its_output_open_until_another_fails", its);
  EXPECT_EQ(first.status, RankStatus::kFailed);
  EXPECT_EQ(first.end, "");
}

TEST_F(RankTest, TheFirstRankToFailIsTheCulpritWheneverItEnds) {
  TestRunner::Options its = options();
  its.limits.grace = its.limits.answer = milliseconds(0);
  rank("fails_first_and_hangs", its);
  EXPECT_EQ(result_.reason, "rank 1 failed: on purpose");
  EXPECT_THAT(result_.attempts.at(0).culprits, ElementsAre(1, 0));
}

TEST_F(RankTest, TheFirstRankToFailIsTheCulpritWhenAnotherCrashes) {
  rank("is_killed_when_another_has_failed");
  EXPECT_EQ(result_.reason, "rank 0 failed: on purpose");
  EXPECT_THAT(result_.attempts.at(0).culprits, ElementsAre(0, 1));
}

TEST_F(RankTest, RankThatNeverStartsDoesNotDelayTheEndOfTheRun) {
  TestRunner::Options its = options_with("never_forks");
  its.limits.ending = milliseconds(0);
  on_event_ = [](TestRunner& runner, const TestEvent& event) {
    if (std::holds_alternative<AttemptBegun>(event)) runner.interrupt();
  };
  const auto never_there = rank("passes", its);
  EXPECT_EQ(never_there.end, "could not be killed by distrun");
  EXPECT_EQ(never_there.stands_at, "");
  EXPECT_EQ(result_.status, TestStatus::kInterrupted);
}

TEST_F(RankTest, DoesNotStartWithoutAFolder) {
  TestRunner::Options its = options();
  its.folder = "/proc/no_such_folder";
  rank("passes", its);
  EXPECT_THAT(result_.reason, StartsWith("rank 0 failed: could not be started: make the folder "));
}

TEST_F(RankTest, DoesNotStartIfItsRequestIsTooLarge) {
  const auto results = run(
      [&](const auto& tests) {
        auto chosen = plan(tests, "tells_its_variables");
        chosen.at(0).backend = std::string(200'000, 'x');
        return chosen;
      },
      options());
  ASSERT_THAT(results, SizeIs(1));
  EXPECT_EQ(results[0].reason,
            "rank 0 failed: could not be started: send a packet: it is too large");
}

TEST_F(RankTest, FailsIfTheHostCannotFork) {
  rank("passes", options_with("refuses"));
  EXPECT_EQ(result_.reason, "rank 0 failed: could not be started: no memory");
}

// The runner kills it: these ranks have no parent-death signal.
TEST_F(RankTest, IsKilledIfItsHostDies) {
  EXPECT_EQ(rank("kills_its_host").status, RankStatus::kCrashed);
  EXPECT_EQ(result_.reason, "rank 0 crashed: the process that forked it is lost");
  EXPECT_THAT(notices_, ElementsAre(HasSubstr("failed: signal SIGKILL (9)")));
}

}  // namespace
}  // namespace distrun
