// The runner, its attempts and its hosts, on ranks and hosts that misbehave (fake_ranks.h).
#include "testsuites/harness/test_runner.h"

#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include <fmt/format.h>
#include <sys/wait.h>

#include "launcher/process_stat.h"
#include "launcher/worker_process.h"
#include "testsuites/harness/fake_host_testing.h"

namespace distrun {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

std::string name_in(const std::string& id) { return id.substr(id.rfind('.') + 1); }

// "passes passed", "fails failed 2" where there were two attempts.
std::vector<std::string> texts(const std::vector<TestResult>& results) {
  std::vector<std::string> all;
  for (const TestResult& result : results) {
    all.push_back(name_in(result.test.id) + " " + text_of(result.status));
    if (result.attempts.size() != 1) all.back() += fmt::format(" {}", result.attempts.size());
  }
  return all;
}

// One test whose ranks misbehave.
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

TEST_F(RankTest, PassesAndIsToldWhatItIsFor) {
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

TEST_F(RankTest, IsToldWhereSomebodyLooksAtAnother) {
  TestRunner::Options its = options();
  EXPECT_EQ(rank("tells_whether_somebody_looks", its).output, "\n");
  its.rank_under = 1;
  EXPECT_EQ(rank("tells_whether_somebody_looks", its).output, "1\n");
}

TEST_F(RankTest, OfManyFailuresAHundredAreKept) {
  const auto failures = rank("fails_1000_times").failures;
  ASSERT_THAT(failures, SizeIs(101));
  EXPECT_EQ(failures[99].message, "on purpose");
  EXPECT_EQ(failures[100].message, "more have failed, which are not kept");
  EXPECT_EQ(result_.status, TestStatus::kFailed);
}

TEST_F(RankTest, HalfAFrameIsGarbage) {
  rank("tells_half_a_frame");
  EXPECT_EQ(result_.reason, "rank 0 failed: wrote into the channel that its results come through");
}

TEST_F(RankTest, ButNotOfOneThatASignalHasEnded) {
  EXPECT_EQ(rank("is_killed_while_it_tells").status, RankStatus::kCrashed);
}

TEST_F(RankTest, WhoSaysWhereItHangsIsNotWaitedForAnyLonger) {
  TestRunner::Options its = options();
  its.limits.grace = milliseconds(0);
  its.limits.answer = seconds(90);
  EXPECT_EQ(rank("hangs_and_says_where", its).stands_at, "here\n");
  EXPECT_LT(result_.time, seconds(80));
}

TEST_F(RankTest, WhoDoesNotSayItIsLookedAtFromOutside) {
  TestRunner::Options its = options();
  its.limits.grace = its.limits.answer = milliseconds(0);
  EXPECT_EQ(rank("hangs_silently", its).stands_at,
            "it does not answer: all its threads are busy, or block signals\n");
}

TEST_F(RankTest, WhatItDoesAfterItsTimeCountsNoMore) {
  timeout_ = milliseconds(200);
  TestRunner::Options its = options();
  its.limits.answer = seconds(90);
  for (const char* test : {"passes_when_asked", "fails_when_asked"}) {
    const RankResult late = rank(test, its);
    EXPECT_EQ(late.status, RankStatus::kTimedOut) << test;
    EXPECT_EQ(late.end, "its end came when its time was over: exit code 0") << test;
    EXPECT_EQ(result_.reason, "timed out: rank 0 hung") << test;
  }
}

TEST_F(RankTest, WhoDoesNotEndHasItsTimeAndNoMore) {
  timeout_ = milliseconds(200);
  EXPECT_EQ(rank("is_done_and_hangs").status, RankStatus::kTimedOut);
  EXPECT_EQ(result_.reason, "rank 0 did not exit when its test was over");
  EXPECT_GE(result_.attempts.at(0).time, timeout_);
}

// It bears no mark, and is not looked for anywhere else.
TEST_F(RankTest, OutputThatSomebodyHoldsOpenIsNotAwaited) {
  left_expected_ = 1;
  EXPECT_EQ(rank("leaves_its_output_open").output, "printed\n");
  EXPECT_EQ(result_.reason,
            "rank 0 failed: left processes behind: one that holds its output, and could not be "
            "found");
}

TEST_F(RankTest, WhoIsStillWaitedForWhenAnotherFailsHasEndedByItself) {
  left_expected_ = 1;
  TestRunner::Options its = options();
  its.limits.grace = its.limits.answer = milliseconds(0);
  const auto first = rank("leaves_its_output_open_until_another_fails", its);
  EXPECT_EQ(first.status, RankStatus::kFailed);
  EXPECT_EQ(first.end, "");
}

TEST_F(RankTest, WhoFailsFirstIsTheCulpritWheneverItEnds) {
  TestRunner::Options its = options();
  its.limits.grace = its.limits.answer = milliseconds(0);
  rank("fails_first_and_hangs", its);
  EXPECT_EQ(result_.reason, "rank 1 failed: on purpose");
  EXPECT_THAT(result_.attempts.at(0).culprits, ElementsAre(1, 0));
}

TEST_F(RankTest, AndWhoeverEndsLaterWithoutAWord) {
  rank("is_killed_when_another_has_failed");
  EXPECT_EQ(result_.reason, "rank 0 failed: on purpose");
  EXPECT_THAT(result_.attempts.at(0).culprits, ElementsAre(0, 1));
}

TEST_F(RankTest, ThatIsNeverStartedIsNotAwaitedAtTheEndOfTheRun) {
  TestRunner::Options its = options_with("never_forks");
  its.limits.ending = milliseconds(0);
  on_event_ = [](TestRunner& runner, const TestEvent& event) {
    if (std::holds_alternative<AttemptBegun>(event)) runner.interrupt();
  };
  const auto never_there = rank("passes", its);
  EXPECT_EQ(never_there.end, "could not be ended by distrun");
  EXPECT_EQ(never_there.stands_at, "");
  EXPECT_EQ(result_.status, TestStatus::kInterrupted);
}

TEST_F(RankTest, WithoutAFolderIsNotStarted) {
  TestRunner::Options its = options();
  its.folder = "/proc/no_such_folder";
  rank("passes", its);
  EXPECT_THAT(result_.reason, StartsWith("rank 0 failed: could not be started: make the folder "));
}

TEST_F(RankTest, WhoseRequestIsTooLargeIsNotStarted) {
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

TEST_F(RankTest, ThatTheHostDoesNotStartHasFailed) {
  rank("passes", options_with("refuses"));
  EXPECT_EQ(result_.reason, "rank 0 failed: could not be started: no memory");
}

// The host does not do it: these have no parent-death signal.
TEST_F(RankTest, OfAHostThatDiesIsEnded) {
  EXPECT_EQ(rank("kills_its_host").status, RankStatus::kCrashed);
  EXPECT_EQ(result_.reason, "rank 0 crashed: the test host is lost, and this rank with it");
  EXPECT_THAT(notices_, ElementsAre(HasSubstr("is lost: it ended: signal SIGKILL (9)")));
}

class HostTest : public testing::FakeHostFixture {};

TEST_F(HostTest, WhoSaysWhatCannotBeUnderstoodIsNone) {
  const auto problem = [&](const char* name) { return problem_of(options_with(name)); };
  EXPECT_THAT(problem("says_rubbish"), HasSubstr("is lost: a message is not understood"));
  EXPECT_THAT(problem("says_too_much"), HasSubstr("is lost: receive a packet: it is too large"));
  EXPECT_THAT(problem("forgets_a_descriptor"), HasSubstr("is not understood: its descriptors"));
  EXPECT_THAT(problem("has_a_broken_list"), HasSubstr("is lost: "));
  EXPECT_THAT(problem("has_its_list_in_a_pipe"), HasSubstr("is lost: read the list of tests: "));
  EXPECT_THAT(problem("prints_and_ends"), EndsWith("it ended: exit code 3\nno memory left\n"));
  EXPECT_FALSE(has_children()) << "it has been reaped";
}

TEST_F(HostTest, NorIsWhatCannotBeStarted) {
  TestRunner::Options its = options();
  its.programs = {"/no/such/program"};
  EXPECT_THAT(problem_of(its), StartsWith("start /no/such/program: "));
}

TEST_F(HostTest, WhoDoesNotSayWhatItHasIsNotAwaitedForEver) {
  for (const char* name : {"says_nothing", "closes_its_socket"}) {
    TestRunner::Options its = options_with(name);
    its.host_timeout = milliseconds(100);
    EXPECT_THAT(problem_of(its), EndsWith("it has not said within 0.1 s what tests it has"))
        << name;
  }
  EXPECT_FALSE(has_children()) << "it has been ended and reaped";
}

TEST_F(HostTest, ButItsTestsMayTakeLonger) {
  TestRunner::Options its = options();
  its.host_timeout = seconds(1);
  timeout_ = milliseconds(1200);
  run_one("hangs_for_ever", its);
  EXPECT_THAT(notices_, IsEmpty());
}

TEST_F(HostTest, WhoEndsBeforeTheFirstTestIsReplaced) {
  hosts_are_started_ = [] {
    siginfo_t ended{};
    EXPECT_EQ(::waitid(P_ALL, 0, &ended, WEXITED | WNOWAIT), 0);
  };
  const auto results = run(the({"passes"}), options_with("ends_when_it_has_begun"));
  EXPECT_THAT(texts(results), ElementsAre("passes passed"));
}

TEST_F(HostTest, WhoHasEndedWhenItIsAskedIsReplacedAndNoFaultOfTheTest) {
  const auto results = run(
      [&](const auto& tests) {
        host_.let_one_go();
        siginfo_t ended{};
        EXPECT_EQ(::waitid(P_ALL, 0, &ended, WEXITED | WNOWAIT), 0);
        return the({"passes"})(tests);
      },
      options_with("ends_when_let"));
  EXPECT_THAT(texts(results), ElementsAre("passes passed"));
  EXPECT_THAT(notices_, ElementsAre(HasSubstr("is lost: it ended: exit code 3")));
}

TEST_F(HostTest, WhoEndsAgainAndAgainIsGivenUpAndItsTestsHaveFailed) {
  TestRunner::Options its = options();
  its.programs = {host("ends_when_asked"), FAKE_TEST_HOST};
  its.jobs = 1;
  its.keeps_order = true;
  its.host_losses_max = 2;
  const auto results =
      run(the({"passes", "passes", "passes", "passes", "passes", "passes@1"}), its);
  ASSERT_THAT(results, SizeIs(6));
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(results[i].status, TestStatus::kFailed);
    EXPECT_THAT(results[i].reason,
                HasSubstr(i < 3 ? "the test host is lost" : "it ends again and again"));
  }
  EXPECT_EQ(results[5].status, TestStatus::kPassed) << "of another host";
  EXPECT_EQ(summary_.failed, 5);
}

TEST_F(HostTest, OnlyLossesInARowAreTooMany) {
  TestRunner::Options its = options();
  its.jobs = 1;
  its.keeps_order = true;
  its.host_losses_max = 2;
  const char* kills = "kills_its_host";
  EXPECT_THAT(texts(run(the({kills, kills, "passes", kills, kills, "passes"}), its)),
              ElementsAre("kills_its_host failed", "kills_its_host failed", "passes passed",
                          "kills_its_host failed", "kills_its_host failed", "passes passed"));
}

TEST_F(HostTest, WhatItSaysOfUnknownRanksIsNotBelieved) {
  const auto results = run(the({"passes", "passes"}), options_with("tells_of_strangers"));
  EXPECT_THAT(texts(results), ElementsAre("passes passed", "passes passed"));
}

TEST_F(HostTest, WhatItSaysTwiceIsTrueOnce) {
  const auto results = run(the({"leaves_its_output_open"}), options_with("says_ends_twice"));
  ASSERT_THAT(results, SizeIs(1));
  EXPECT_THAT(results[0].reason, StartsWith("rank 0 failed: left processes behind: "));
  EXPECT_THAT(results[0].reason, EndsWith(" (says_ends_twice)"));
}

TEST_F(HostTest, SeveralProgramsHaveOneEach) {
  TestRunner::Options its = options();
  its.programs = {FAKE_TEST_HOST, FAKE_TEST_HOST};
  const auto results = run(the({"passes", "passes@1"}), its);
  EXPECT_THAT(texts(results), ElementsAre("passes passed", "passes passed"));
}

TEST_F(HostTest, TheEndOfOneIsNothingToTheTestsOfAnother) {
  TestRunner::Options its = options();
  its.programs = {FAKE_TEST_HOST, host("ends_when_asked")};
  on_event_ = [&](TestRunner&, const TestEvent& event) {
    const auto* ended = std::get_if<TestEnded>(&event);
    if (ended && ended->result.test.id == "fake.Rank.passes") passes_when_let_.let_one_go();
  };
  const auto results = run(the({"passes_when_let", "passes@1"}), its);
  EXPECT_THAT(texts(results), ElementsAre("passes_when_let passed", "passes failed"));
  EXPECT_THAT(notices_, SizeIs(1)) << "nothing had to be run again";
}

// Both have ended, and one of them is there again.
TEST_F(HostTest, TestsWaitForTheirOwn) {
  TestRunner::Options its = options();
  its.programs = {FAKE_TEST_HOST, host("says_nothing_the_second_time")};
  its.host_timeout = milliseconds(500);
  its.host_losses_max = 2;
  its.jobs = 2;
  its.keeps_order = true;
  const auto results = run(the({"kills_its_host", "passes@1", "passes", "passes@1"}), its);
  EXPECT_THAT(texts(results), ElementsAre("kills_its_host failed", "passes failed", "passes passed",
                                          "passes failed 0"));
}

TEST_F(HostTest, MoreRequestsThanItsSocketHoldsAreAllSent) {
  allow_many_descriptors();
  TestRunner::Options its = options_with("waits_before_it_reads");
  its.jobs = 300;
  on_event_ = [&, begun = 0](TestRunner&, const TestEvent& event) mutable {
    if (std::holds_alternative<AttemptBegun>(event) && ++begun == 300) host_.let_one_go();
  };
  const auto results = run(the(std::vector<std::string>(300, "passes")), its);
  EXPECT_THAT(results, SizeIs(300));
  for (const TestResult& result : results) {
    EXPECT_EQ(result.status, TestStatus::kPassed) << result.reason;
  }
}

class TestRunnerTest : public testing::FakeHostFixture {
 protected:
  TestRunnerTest() {
    on_event_ = [this](TestRunner& runner, const TestEvent& event) {
      if (const auto* begun = std::get_if<AttemptBegun>(&event)) {
        begun_.push_back(name_in(begun->id));
        running_.insert(begun_.back());
      } else if (const auto* ended = std::get_if<AttemptEnded>(&event)) {
        running_.erase(name_in(ended->id));
      }
      if (also_) also_(runner, event);
    };
  }

  static bool has_begun(const TestEvent& event, const std::string& name) {
    const auto* begun = std::get_if<AttemptBegun>(&event);
    return begun && name_in(begun->id) == name;
  }
  static bool has_ended(const TestEvent& event, const std::string& name) {
    const auto* ended = std::get_if<TestEnded>(&event);
    return ended && name_in(ended->result.test.id) == name;
  }

  std::vector<std::string> begun_;
  std::set<std::string> running_;
  std::function<void(TestRunner&, const TestEvent&)> also_;
};

TEST_F(TestRunnerTest, LargerTestsGoFirstUnlessTheOrderIsKept) {
  TestRunner::Options its = options();
  run(the({"passes", "has_two_ranks"}), its);
  EXPECT_THAT(begun_, ElementsAre("has_two_ranks", "passes"));
  begun_.clear();
  its.keeps_order = true;
  run(the({"passes", "has_two_ranks"}), its);
  EXPECT_THAT(begun_, ElementsAre("passes", "has_two_ranks"));
}

TEST_F(TestRunnerTest, AnExclusiveTestIsAlone) {
  also_ = [&](TestRunner&, const TestEvent& event) {
    if (has_begun(event, "is_alone")) {
      EXPECT_THAT(running_, ElementsAre("is_alone"));
    }
    if (has_begun(event, "passes_when_let")) passes_when_let_.let_one_go();
  };
  TestRunner::Options its = options();
  its.keeps_order = true;
  EXPECT_THAT(texts(run(the({"passes_when_let", "is_alone"}), its)),
              ElementsAre("passes_when_let passed", "is_alone passed"));
}

std::vector<pid_t> children_of(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{0}/task/{0}/children", pid));
  return {std::istream_iterator<pid_t>(file), {}};
}

// Within 20 s.
bool stops(pid_t pid) {
  for (const auto until = std::chrono::steady_clock::now() + seconds(20);
       std::chrono::steady_clock::now() < until;) {
    const auto stat = read_process_stat(pid);
    if (stat && stat->state == 'T') return true;
  }
  return false;
}

TEST_F(TestRunnerTest, APauseStopsAlsoARankThatWasBeingForked) {
  int paused = 0;
  also_ = [&](TestRunner& runner, const TestEvent& event) {
    if (!has_begun(event, "passes_when_let")) return;
    runner.pause([&] {
      ++paused;
      for (const pid_t host : children_of(::getpid())) {
        EXPECT_THAT(children_of(host), SizeIs(1));
        for (const pid_t rank : children_of(host)) EXPECT_TRUE(stops(rank));
      }
      passes_when_let_.let_one_go();
      runner.resume();
    });
  };
  EXPECT_THAT(texts(run(the({"passes_when_let", "passes"}), options())),
              ElementsAre("passes_when_let passed", "passes passed"));
  EXPECT_EQ(paused, 1);
}

TEST_F(TestRunnerTest, WhoWasThereWhenAHostDiedIsRunAgainAloneAndToldOnce) {
  also_ = [&](TestRunner&, const TestEvent& event) {
    if (std::holds_alternative<TestsNoticed>(event)) kills_its_host_when_let_.let_one_go();
  };
  TestRunner::Options its = options();
  its.attempts_max = 2;
  const auto results = run(the({"kills_its_host_when_let", "hangs_the_first_time"}), its);
  EXPECT_THAT(texts(results),
              ElementsAre("kills_its_host_when_let failed 2", "hangs_the_first_time passed"));
  EXPECT_THAT(begun_, ElementsAre("kills_its_host_when_let", "hangs_the_first_time",
                                  "kills_its_host_when_let"));
  EXPECT_THAT(notices_, SizeIs(3));
}

TEST_F(TestRunnerTest, TheTimeOfATestIsThatOfAllItsAttempts) {
  TestRunner::Options its = options();
  its.attempts_max = 2;
  timeout_ = milliseconds(50);
  const auto results = run("hangs_for_ever", its);
  ASSERT_THAT(texts(results), ElementsAre("hangs_for_ever failed 2"));
  EXPECT_EQ(results[0].time, results[0].attempts[0].time + results[0].attempts[1].time);
  EXPECT_GE(results[0].time, 2 * timeout_);
}

TEST_F(TestRunnerTest, OnlyAFailureIsAReasonToFailFast) {
  TestRunner::Options its = options();
  its.fail_fast = true;
  its.jobs = 1;
  its.keeps_order = true;
  EXPECT_THAT(
      texts(run(the({"passes", "skips", "fails", "passes"}), its)),
      ElementsAre("passes passed", "skips skipped", "fails failed", "passes interrupted 0"));
}

TEST_F(TestRunnerTest, WhatRunsWhenOneFailsFastIsNotTriedAgain) {
  also_ = [&](TestRunner&, const TestEvent& event) {
    if (has_ended(event, "fails")) fails_when_let_.let_one_go();
  };
  TestRunner::Options its = options();
  its.fail_fast = true;
  its.attempts_max = 2;
  EXPECT_THAT(texts(run(the({"fails", "fails_when_let"}), its)),
              ElementsAre("fails failed 2", "fails_when_let failed"));
}

TEST_F(TestRunnerTest, NorIfItsHostDies) {
  also_ = [&](TestRunner&, const TestEvent& event) {
    if (has_ended(event, "fails")) kills_its_host_when_let_.let_one_go();
  };
  TestRunner::Options its = options();
  its.fail_fast = true;
  its.host_losses_max = 0;
  EXPECT_THAT(
      texts(run(the({"fails", "kills_its_host_when_let", "hangs_for_ever"}), its)),
      ElementsAre("fails failed", "kills_its_host_when_let failed", "hangs_for_ever failed"));
  EXPECT_THAT(notices_, ElementsAre(HasSubstr("--fail-fast"), HasSubstr("is lost")))
      << "nobody needs it any more";
}

// The first program's host ends behind the first test.  When the last one fails, it is on its way
// again, and a test waits for it.
TEST_F(TestRunnerTest, WhatWaitsForAHostWhenOneFailsFastIsNotStarted) {
  also_ = [&](TestRunner&, const TestEvent& event) {
    const auto* notice = std::get_if<TestsNoticed>(&event);
    if (notice && notice->text.ends_with("exit code 3")) passes_when_let_.let_one_go();
    if (has_ended(event, "passes_when_let")) fails_when_let_.let_one_go();
    if (has_ended(event, "fails_when_let")) host_.let_one_go();
  };
  TestRunner::Options its = options();
  its.programs = {host("ends_after_a_rank_then_waits"), FAKE_TEST_HOST};
  its.jobs = 4;
  its.fail_fast = its.keeps_order = true;
  EXPECT_THAT(texts(run(the({"passes", "passes_at_last@1", "passes_when_let@1", "fails_when_let@1",
                             "has_two_ranks"}),
                        its)),
              ElementsAre("passes passed", "passes_at_last passed", "passes_when_let passed",
                          "fails_when_let failed", "has_two_ranks interrupted 0"));
  EXPECT_THAT(begun_, Not(Contains("has_two_ranks")));
}

TEST_F(TestRunnerTest, AfterAnInterruptNothingIsStartedAndTheLoopEndsByItself) {
  boost::asio::io_context io;
  std::vector<TestEvent> events;
  TestRunner runner(io, options(), [&](const TestEvent& event) { events.push_back(event); });
  int ended = 0;
  runner.interrupt();
  runner.load([&](auto tests) {
    ASSERT_TRUE(tests) << tests.error().message;
    runner.interrupt();
    runner.run({.tests = the({"passes"})(*tests)}, [&] { ++ended; });
  });
  io.run_for(seconds(100));
  EXPECT_TRUE(io.stopped());
  EXPECT_EQ(ended, 1);
  ASSERT_THAT(events, SizeIs(2));
  const auto* test = std::get_if<TestEnded>(&events[0]);
  ASSERT_NE(test, nullptr);
  EXPECT_EQ(test->result.status, TestStatus::kInterrupted);
  EXPECT_TRUE(std::holds_alternative<TestsEnded>(events[1]));
}

TEST_F(TestRunnerTest, WhatRanksLeaveIsReapedWhileOthersRun) {
  EXPECT_TRUE(adopt_descendants());
  boost::asio::io_context io;
  pid_t left = -1;
  bool has_come_to_an_end = false;
  TestRunner::Options its = options();
  its.jobs = 1;
  its.keeps_order = true;
  TestRunner runner(io, its, [&](const TestEvent& event) {
    if (!has_ended(event, "leaves_a_process_that_ends")) return;
    left = std::stoi(std::get<TestEnded>(event).result.attempts.at(0).ranks.at(0).output);
  });
  runner.load([&](auto tests) {
    ASSERT_TRUE(tests) << tests.error().message;
    runner.run({.tests = the({"leaves_a_process_that_ends", "hangs_for_ever"})(*tests)},
               [&] { has_come_to_an_end = true; });
  });
  const auto is_there = [&] {
    siginfo_t its_end{};
    const auto pid = static_cast<id_t>(left);
    return ::waitid(P_PID, pid, &its_end, WEXITED | WNOWAIT | WNOHANG) == 0;
  };
  while (left < 0 || is_there()) ASSERT_GT(io.run_one_for(seconds(30)), 0u) << "nothing happens";
  runner.interrupt();
  io.run_for(seconds(100));
  EXPECT_TRUE(has_come_to_an_end);
}

// A test that runs again and again, and whose results nobody asks for in full.
TEST_F(TestRunnerTest, OfManyThatPassTheLastStandsForAll) {
  boost::asio::io_context io;
  TestsEnded end;
  TestRunner::Options its = options();
  its.keeps_all_results = false;
  its.jobs = 2;
  TestRunner runner(io, its, [&, running = 0](const TestEvent& event) mutable {
    if (std::holds_alternative<AttemptBegun>(event)) {
      EXPECT_EQ(++running, 1) << "the plan says so";
    } else if (std::holds_alternative<AttemptEnded>(event)) {
      --running;
    } else if (const auto* all = std::get_if<TestsEnded>(&event)) {
      end = *all;
    }
  });
  runner.load([&](auto tests) {
    ASSERT_TRUE(tests) << tests.error().message;
    runner.run({.tests = the({"passes", "fails", "has_two_ranks"})(*tests),
                .turns = {{0, 0}, {1, 0}, {0, 1}, {1, 1}, {2, 0}, {0, 2}},
                .jobs = 1},
               [&] { io.stop(); });
  });
  io.run_for(seconds(100));
  EXPECT_EQ(end.summary.passed, 4);
  EXPECT_EQ(end.summary.failed, 2);
  ASSERT_THAT(end.results, SizeIs(4));
  for (const TestResult& failed : {end.results[0], end.results[1]}) {
    EXPECT_EQ(failed.status, TestStatus::kFailed);
    EXPECT_THAT(failed.attempts.at(0).ranks, SizeIs(1));
  }
  EXPECT_EQ(end.results[2].test.id, "fake.Rank.has_two_ranks");
  EXPECT_EQ(end.results[3].test.id, "fake.Rank.passes");
  EXPECT_EQ(end.results[3].repetition, 2);
  ASSERT_THAT(end.results[3].attempts, SizeIs(1));
  EXPECT_THAT(end.results[3].attempts[0].ranks, IsEmpty());
}

}  // namespace
}  // namespace distrun
