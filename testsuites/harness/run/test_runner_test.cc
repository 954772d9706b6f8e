// Order of execution, and events of the runner.
#include "testsuites/harness/run/test_runner.h"

#include <fstream>
#include <set>

#include <fmt/format.h>

#include "common/os/process_stat.h"
#include "testsuites/harness/test/fake_host.h"

namespace distrun {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::name_in;
using ::testing::Not;
using ::testing::SizeIs;
using testing::texts;

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

TEST_F(TestRunnerTest, StartsLargerTestsFirstUnlessItKeepsTheOrder) {
  TestRunner::Options its = options();
  run(the({"passes", "has_two_ranks"}), its);
  EXPECT_THAT(begun_, ElementsAre("has_two_ranks", "passes"));
  begun_.clear();
  its.keeps_order = true;
  run(the({"passes", "has_two_ranks"}), its);
  EXPECT_THAT(begun_, ElementsAre("passes", "has_two_ranks"));
}

TEST_F(TestRunnerTest, RunsAnExclusiveTestAlone) {
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

// Waits up to 20 s.
bool stops(pid_t pid) {
  for (const auto until = std::chrono::steady_clock::now() + seconds(20);
       std::chrono::steady_clock::now() < until;) {
    const auto stat = read_process_stat(pid);
    if (stat && stat->state == 'T') return true;
  }
  return false;
}

TEST_F(TestRunnerTest, SuspendStopsARankThatIsBeingForkedToo) {
  int suspended = 0;
  also_ = [&](TestRunner& runner, const TestEvent& event) {
    if (!has_begun(event, "passes_when_let")) return;
    runner.suspend([&] {
      ++suspended;
      for (const pid_t host : children_of(::getpid())) {
        EXPECT_THAT(children_of(host), SizeIs(1));
        for (const pid_t rank : children_of(host)) EXPECT_TRUE(stops(rank));
      }
      passes_when_let_.let_one_go();
      runner.continue_run();
    });
  };
  EXPECT_THAT(texts(run(the({"passes_when_let", "passes"}), options())),
              ElementsAre("passes_when_let passed", "passes passed"));
  EXPECT_EQ(suspended, 1);
}

TEST_F(TestRunnerTest, RerunsTestsOfADeadHostAloneAndReportsThemOnce) {
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

TEST_F(TestRunnerTest, TheTimeOfATestIncludesAllItsAttempts) {
  TestRunner::Options its = options();
  its.attempts_max = 2;
  timeout_ = milliseconds(50);
  const auto results = run("hangs_for_ever", its);
  ASSERT_THAT(texts(results), ElementsAre("hangs_for_ever failed 2"));
  EXPECT_EQ(results[0].time, results[0].attempts[0].time + results[0].attempts[1].time);
  EXPECT_GE(results[0].time, 2 * timeout_);
}

TEST_F(TestRunnerTest, OnlyAFailureTriggersFailFast) {
  TestRunner::Options its = options();
  its.fail_fast = true;
  its.jobs = 1;
  its.keeps_order = true;
  EXPECT_THAT(
      texts(run(the({"passes", "skips", "fails", "passes"}), its)),
      ElementsAre("passes passed", "skips skipped", "fails failed", "passes interrupted 0"));
}

TEST_F(TestRunnerTest, DoesNotRetryRunningTestsAfterFailFast) {
  also_ = [&](TestRunner&, const TestEvent& event) {
    if (has_ended(event, "fails")) fails_when_let_.let_one_go();
  };
  TestRunner::Options its = options();
  its.fail_fast = true;
  its.attempts_max = 2;
  EXPECT_THAT(texts(run(the({"fails", "fails_when_let"}), its)),
              ElementsAre("fails failed 2", "fails_when_let failed"));
}

TEST_F(TestRunnerTest, DoesNotRerunTestsOfADeadHostAfterFailFast) {
  also_ = [&](TestRunner&, const TestEvent& event) {
    if (has_ended(event, "fails")) kills_its_host_when_let_.let_one_go();
  };
  TestRunner::Options its = options();
  its.fail_fast = true;
  its.host_losses_max = 0;
  EXPECT_THAT(
      texts(run(the({"fails", "kills_its_host_when_let", "hangs_for_ever"}), its)),
      ElementsAre("fails failed", "kills_its_host_when_let failed", "hangs_for_ever failed"));
  EXPECT_THAT(notices_, ElementsAre(HasSubstr("--fail-fast"), HasSubstr("failed:")))
      << "no test needs the host any more";
}

// The first program's host ends after the first test. When the last test fails, the host is
// restarting, and a test waits for it.
TEST_F(TestRunnerTest, DoesNotStartTestsThatWaitForAHostAfterFailFast) {
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

TEST_F(TestRunnerTest, AfterAnInterruptNothingStartsAndTheLoopEnds) {
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

TEST_F(TestRunnerTest, ReapsOrphansOfRanksDuringTheRun) {
  EXPECT_TRUE(become_subreaper());
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

// A test repeated many times, whose results are not kept.
TEST_F(TestRunnerTest, KeepsOnlyTheLastPassedRepetition) {
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
