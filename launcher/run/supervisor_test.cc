#include "launcher/run/supervisor.h"

#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distrun {
namespace {

using std::chrono::seconds;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

const TimePoint kRunStart{};
constexpr ExitedWith kOk{0};

std::string action_text(const Action& action) {
  struct Text {
    std::string operator()(const BeginAttempt& a) {
      return "begin attempt " + std::to_string(a.attempt);
    }
    std::string operator()(const Forward& a) {
      return signal_name(a.signal) + " on to " + of(a.worker);
    }
    std::string operator()(const Suspend&) { return "suspend"; }
    std::string operator()(const ShowStacks& a) { return a.prints ? "show stacks" : "read stacks"; }
    std::string operator()(const KillLeakedProcesses&) { return "kill leaked processes"; }
    std::string operator()(const TellStillRunning& a) {
      std::string text = "still running:";
      for (const LocalRank worker : a.workers) text += ' ' + of(worker);
      if (a.until_kill) text += "; kill in " + std::to_string(a.until_kill->count()) + " ms";
      return a.signal ? text + " or at " + signal_name(*a.signal) : text;
    }
    std::string operator()(const TellFailedAttempt& a) {
      return "attempt " + std::to_string(a.end.attempt) + " failed";
    }
    std::string operator()(const Spawn& a) { return "spawn " + of(a.worker); }
    std::string operator()(const SendSignal& a) {
      return signal_name(a.signal) + " to " + of(a.worker);
    }
    std::string operator()(const CloseOutput& a) { return "close output of " + of(a.worker); }
    std::string operator()(const Reap& a) { return "reap " + of(a.worker); }
    std::string operator()(const Finish& a) {
      return "finish " + std::to_string(exit_status(a.run_end));
    }
    // Several nodes: supervisor_nodes_test.cc.
    std::string operator()(const TellNodesFailed&) { return "tell failed"; }
    std::string operator()(const TellNodesSucceeded&) { return "tell succeeded"; }
    std::string operator()(const TellNodesStopped&) { return "tell stopped"; }
    static std::string of(LocalRank worker) { return std::to_string(worker.value()); }
  };
  return std::visit(Text{}, action);
}

std::vector<std::string> texts(const Actions& actions) {
  std::vector<std::string> lines;
  for (const Action& action : actions) lines.push_back(action_text(action));
  return lines;
}

// All workers have started at kRunStart.
class SupervisorTest : public ::testing::Test {
 protected:
  void start(Supervisor::Options options) {
    supervisor_.emplace(options);
    EXPECT_THAT(texts(supervisor_->start(kRunStart)), ElementsAre("begin attempt 0", "spawn 0"));
    for (int i = 0; i < options.workers; ++i) step(Spawned{LocalRank(i)});
  }

  std::vector<std::string> step(const SupervisorEvent& event, seconds after = seconds(1)) {
    const Actions actions = supervisor_->step(event, kRunStart + after);
    for (const Action& action : actions) {
      if (const auto* finish = std::get_if<Finish>(&action)) run_end_ = finish->run_end;
    }
    return texts(actions);
  }

  std::vector<std::string> exits(int worker, const ProcessEnd& end, seconds after = seconds(1)) {
    auto lines = step(OutputClosed{LocalRank(worker)}, after);
    for (auto& line : step(Exited{LocalRank(worker), end}, after)) lines.push_back(line);
    return lines;
  }

  std::optional<Supervisor> supervisor_;
  std::optional<RunEnd> run_end_;
};

TEST_F(SupervisorTest, StartsWorkersOneAfterTheOther) {
  Supervisor supervisor({.workers = 2});
  EXPECT_THAT(texts(supervisor.start(kRunStart)), ElementsAre("begin attempt 0", "spawn 0"));
  EXPECT_THAT(texts(supervisor.step(Spawned{LocalRank(0)}, kRunStart)), ElementsAre("spawn 1"));
  EXPECT_THAT(texts(supervisor.step(Spawned{LocalRank(1)}, kRunStart)), IsEmpty());
}

TEST_F(SupervisorTest, SucceedsWhenAllHaveExitedWithZero) {
  start({.workers = 2});
  EXPECT_THAT(exits(1, kOk), ElementsAre("reap 1"));
  EXPECT_THAT(exits(0, kOk), ElementsAre("reap 0", "kill leaked processes", "finish 0"));
}

TEST_F(SupervisorTest, FirstFailureEndsTheRunAndIsItsCause) {
  start({.workers = 3});
  EXPECT_THAT(exits(1, ExitedWith{3}),
              ElementsAre("SIGTERM to 0", "SIGTERM to 1", "SIGTERM to 2", "reap 1"));
  EXPECT_THAT(exits(0, ExitedWith{9}), ElementsAre("reap 0"));
  EXPECT_THAT(exits(2, KilledBy{SIGTERM}),
              ElementsAre("reap 2", "kill leaked processes", "finish 3"));
  EXPECT_EQ(run_end_->cause, RunEnd::Cause::kWorkerFailed);
  EXPECT_EQ(run_end_->culprit, LocalRank(1));
  EXPECT_EQ(run_end_->workers[0].end, ProcessEnd(ExitedWith{9}));
}

TEST_F(SupervisorTest, ExitStatusOfAKilledWorkerIs128PlusSignal) {
  start({.workers = 1});
  exits(0, KilledBy{SIGSEGV});
  EXPECT_EQ(exit_status(*run_end_), 139);
}

TEST_F(SupervisorTest, KillsWorkersThatIgnoreSigtermAfterTheGrace) {
  start({.workers = 2, .shutdown_timeout = seconds(5), .first_reminder = seconds(60)});
  exits(0, ExitedWith{1}, seconds(10));
  EXPECT_EQ(supervisor_->next_deadline(), kRunStart + seconds(15));
  EXPECT_THAT(step(Tick{}, seconds(14)), IsEmpty());
  EXPECT_THAT(step(Tick{}, seconds(15)), ElementsAre("SIGKILL to 1"));
  EXPECT_THAT(exits(1, KilledBy{SIGKILL}, seconds(16)),
              ElementsAre("reap 1", "kill leaked processes", "finish 1"));
}

TEST_F(SupervisorTest, StopsWaitingForWorkersThatSurviveSigkill) {
  start({.workers = 2, .shutdown_timeout = seconds(5), .kill_timeout = seconds(7)});
  exits(0, ExitedWith{1}, seconds(10));
  step(Tick{}, seconds(15));
  EXPECT_EQ(supervisor_->next_deadline(), kRunStart + seconds(22));
  EXPECT_THAT(step(Tick{}, seconds(22)),
              ElementsAre("close output of 1", "kill leaked processes", "finish 1"));
  EXPECT_EQ(supervisor_->next_deadline(), std::nullopt);
  EXPECT_EQ(run_end_->workers[1].end, std::nullopt);
  EXPECT_TRUE(run_end_->workers[1].started);
}

TEST_F(SupervisorTest, FirstInterruptForwardsTheSignalAndSecondKills) {
  start({.workers = 2});
  EXPECT_THAT(step(Interrupted{SIGINT}), ElementsAre("read stacks", "SIGINT to 0", "SIGINT to 1"));
  EXPECT_THAT(step(Interrupted{SIGINT}, seconds(2)), ElementsAre("SIGKILL to 0", "SIGKILL to 1"));
  exits(0, KilledBy{SIGKILL});
  EXPECT_THAT(exits(1, KilledBy{SIGKILL}),
              ElementsAre("reap 1", "kill leaked processes", "finish 130"));
}

// `timeout` and session managers signal the process, then its group.
TEST_F(SupervisorTest, CountsTwoSignalsWithin100MsAsOne) {
  using std::chrono::milliseconds;
  start({.workers = 1});
  step(Interrupted{SIGTERM});
  const auto again = [&](milliseconds later) {
    return texts(supervisor_->step(Interrupted{SIGHUP}, kRunStart + seconds(1) + later));
  };
  EXPECT_THAT(again(milliseconds(0)), IsEmpty());
  EXPECT_THAT(again(milliseconds(99)), IsEmpty());
  EXPECT_THAT(again(milliseconds(100)), ElementsAre("SIGKILL to 0"));
  EXPECT_THAT(exits(0, KilledBy{SIGKILL}),
              ElementsAre("reap 0", "kill leaked processes", "finish 143"));
}

TEST_F(SupervisorTest, ReportsRunningWorkersAfterOneSecondThenEveryTen) {
  start({.workers = 3});
  step(Interrupted{SIGINT}, seconds(0));
  exits(1, kOk, seconds(0));
  EXPECT_EQ(supervisor_->next_deadline(), kRunStart + seconds(1));
  EXPECT_THAT(step(Tick{}, seconds(0)), IsEmpty());
  EXPECT_THAT(step(Tick{}, seconds(1)),
              ElementsAre("still running: 0 2; kill in 29000 ms or at SIGINT"));
  exits(2, kOk, seconds(2));
  EXPECT_EQ(supervisor_->next_deadline(), kRunStart + seconds(11));
  EXPECT_THAT(step(Tick{}, seconds(11)),
              ElementsAre("still running: 0; kill in 19000 ms or at SIGINT"));
  EXPECT_THAT(step(Tick{}, seconds(30)), ElementsAre("SIGKILL to 0"));
  EXPECT_EQ(supervisor_->next_deadline(), kRunStart + seconds(60));
}

TEST_F(SupervisorTest, SuspensionPostponesTheReportOfRunningWorkers) {
  start({.workers = 1});
  step(Interrupted{SIGTERM}, seconds(0));
  step(SuspendAsked{}, seconds(0));
  step(Continued{}, seconds(60));
  EXPECT_EQ(supervisor_->next_deadline(), kRunStart + seconds(61));
  EXPECT_THAT(step(Tick{}, seconds(61)),
              ElementsAre("still running: 0; kill in 29000 ms or at SIGTERM"));
}

TEST_F(SupervisorTest, SuspensionKeepsATimeoutThatNeverExpires) {
  constexpr std::chrono::hours kTwelveYears(100'000);
  start({.workers = 1, .shutdown_timeout = kTwelveYears, .timeout = kTwelveYears});
  step(SuspendAsked{}, seconds(0));
  step(Continued{}, seconds(60));
  EXPECT_THAT(step(Tick{}, seconds(61)), IsEmpty());
  step(Interrupted{SIGINT}, seconds(61));
  step(SuspendAsked{}, seconds(61));
  step(Continued{}, seconds(70));
  EXPECT_THAT(step(Tick{}, seconds(71)), ElementsAre("still running: 0 or at SIGINT"));
}

TEST_F(SupervisorTest, ReportsRunningWorkersWithoutASignalAfterAFailure) {
  start({.workers = 2});
  exits(1, ExitedWith{3}, seconds(0));
  EXPECT_THAT(step(Tick{}, seconds(1)), ElementsAre("still running: 0; kill in 29000 ms"));
}

TEST_F(SupervisorTest, InterruptedRunIsNotASuccessEvenIfWorkersExitWithZero) {
  start({.workers = 1});
  step(Interrupted{SIGTERM});
  EXPECT_THAT(exits(0, kOk), ElementsAre("reap 0", "kill leaked processes", "finish 143"));
}

TEST_F(SupervisorTest, TimeoutEndsTheRun) {
  start({.workers = 1, .timeout = seconds(60)});
  EXPECT_EQ(supervisor_->next_deadline(), kRunStart + seconds(60));
  EXPECT_THAT(step(Tick{}, seconds(60)), ElementsAre("show stacks", "SIGTERM to 0"));
  EXPECT_THAT(exits(0, kOk, seconds(61)),
              ElementsAre("reap 0", "kill leaked processes", "finish 124"));
}

TEST_F(SupervisorTest, TheTimeToEndBeginsWhenTheStacksAreShown) {
  start({.workers = 1, .shutdown_timeout = seconds(2), .timeout = seconds(60)});
  step(Tick{}, seconds(60));
  step(StacksShown{}, seconds(63));
  EXPECT_THAT(step(Tick{}, seconds(64)), Not(Contains("SIGKILL to 0")));
  EXPECT_THAT(step(Tick{}, seconds(65)), Contains("SIGKILL to 0"));
}

TEST_F(SupervisorTest, LostOutputEndsTheRun) {
  start({.workers = 1});
  EXPECT_THAT(step(OutputLost{{ErrorKind::kSystem, "no space"}}), ElementsAre("SIGTERM to 0"));
  EXPECT_THAT(exits(0, KilledBy{SIGTERM}),
              ElementsAre("reap 0", "kill leaked processes", "finish 125"));
}

TEST_F(SupervisorTest, FailedStartEndsTheRunAndStartsNoOtherWorker) {
  Supervisor supervisor({.workers = 3});
  supervisor.start(kRunStart);
  supervisor.step(Spawned{LocalRank(0)}, kRunStart);
  const SupervisorEvent failed = SpawnFailed{LocalRank(1), {ErrorKind::kNotExecutable, "no"}};
  EXPECT_THAT(texts(supervisor.step(failed, kRunStart)), ElementsAre("SIGTERM to 0"));
  supervisor.step(OutputClosed{LocalRank(0)}, kRunStart);
  EXPECT_THAT(texts(supervisor.step(Exited{LocalRank(0), KilledBy{SIGTERM}}, kRunStart)),
              ElementsAre("reap 0", "kill leaked processes", "finish 126"));
}

TEST_F(SupervisorTest, ReapsAWorkerOnlyAfterItsOutputHasEnded) {
  start({.workers = 1});
  EXPECT_THAT(step(Exited{LocalRank(0), kOk}), IsEmpty());
  EXPECT_THAT(step(OutputClosed{LocalRank(0)}),
              ElementsAre("reap 0", "kill leaked processes", "finish 0"));
  EXPECT_FALSE(run_end_->workers[0].leaked);
}

TEST_F(SupervisorTest, GrandchildHoldingTheOutputIsALeakAndDoesNotHangTheRun) {
  start({.workers = 1, .leak_grace = seconds(2)});
  step(Exited{LocalRank(0), kOk}, seconds(10));
  EXPECT_EQ(supervisor_->next_deadline(), kRunStart + seconds(12));
  EXPECT_THAT(step(Tick{}, seconds(12)), ElementsAre("close output of 0"));
  EXPECT_EQ(supervisor_->next_deadline(), std::nullopt);
  EXPECT_THAT(step(OutputClosed{LocalRank(0), /*held=*/true}),
              ElementsAre("reap 0", "kill leaked processes", "finish 0"));
  EXPECT_TRUE(run_end_->workers[0].leaked);
}

TEST_F(SupervisorTest, UnreadOutputIsNotALeak) {
  start({.workers = 1, .leak_grace = seconds(2)});
  step(Exited{LocalRank(0), kOk}, seconds(10));
  EXPECT_THAT(step(Tick{}, seconds(12)), ElementsAre("close output of 0"));
  EXPECT_THAT(step(OutputClosed{LocalRank(0)}),
              ElementsAre("reap 0", "kill leaked processes", "finish 0"));
  EXPECT_FALSE(run_end_->workers[0].leaked);
}

TEST_F(SupervisorTest, ClosedReaderStopsTheRunOnlyOnce) {
  start({.workers = 1});
  EXPECT_THAT(step(ReaderGone{}), ElementsAre("SIGTERM to 0"));
  EXPECT_THAT(step(ReaderGone{}), IsEmpty());
  EXPECT_THAT(step(Interrupted{SIGINT}), IsEmpty());
  EXPECT_THAT(exits(0, kOk), ElementsAre("reap 0", "kill leaked processes", "finish 141"));
}

TEST_F(SupervisorTest, StopsAWorkerThatWasBeingStarted) {
  Supervisor supervisor({.workers = 3});
  supervisor.start(kRunStart);
  EXPECT_THAT(texts(supervisor.step(Spawned{LocalRank(0)}, kRunStart)), ElementsAre("spawn 1"));
  EXPECT_THAT(texts(supervisor.step(Interrupted{SIGINT}, kRunStart)),
              ElementsAre("read stacks", "SIGINT to 0"));
  EXPECT_THAT(texts(supervisor.step(Spawned{LocalRank(1)}, kRunStart)), ElementsAre("SIGINT to 1"));
}

TEST_F(SupervisorTest, RestartsAsLongAsRestartsAreLeft) {
  start({.workers = 2, .max_restarts = 1});
  EXPECT_THAT(exits(1, ExitedWith{3}), ElementsAre("SIGTERM to 0", "SIGTERM to 1", "reap 1"));
  EXPECT_THAT(exits(0, KilledBy{SIGTERM}),
              ElementsAre("reap 0", "kill leaked processes", "attempt 0 failed", "begin attempt 1",
                          "spawn 0"));
  EXPECT_THAT(step(Spawned{LocalRank(0)}), ElementsAre("spawn 1"));
  EXPECT_THAT(step(Spawned{LocalRank(1)}), IsEmpty());
  EXPECT_THAT(exits(0, ExitedWith{4}), ElementsAre("SIGTERM to 0", "SIGTERM to 1", "reap 0"));
  EXPECT_THAT(exits(1, KilledBy{SIGTERM}),
              ElementsAre("reap 1", "kill leaked processes", "finish 4"));
  EXPECT_EQ(run_end_->attempt, 1);
  EXPECT_EQ(run_end_->culprit, LocalRank(0));
}

TEST_F(SupervisorTest, HangStopsTheWorkersAndFailsTheAttempt) {
  start({.workers = 1, .max_restarts = 1});
  EXPECT_THAT(step(Hung{}), ElementsAre("show stacks", "SIGTERM to 0"));
  EXPECT_THAT(step(Hung{}), IsEmpty());
  EXPECT_THAT(exits(0, KilledBy{SIGTERM}),
              ElementsAre("reap 0", "kill leaked processes", "attempt 0 failed", "begin attempt 1",
                          "spawn 0"));
  step(Spawned{LocalRank(0)});
  step(Hung{});
  EXPECT_THAT(exits(0, KilledBy{SIGTERM}),
              ElementsAre("reap 0", "kill leaked processes", "finish 75"));
  EXPECT_EQ(run_end_->cause, RunEnd::Cause::kHung);
}

TEST_F(SupervisorTest, SucceedsIfALaterAttemptSucceeds) {
  start({.workers = 1, .max_restarts = 3});
  exits(0, ExitedWith{3});
  step(Spawned{LocalRank(0)});
  EXPECT_THAT(exits(0, kOk), ElementsAre("reap 0", "kill leaked processes", "finish 0"));
  EXPECT_EQ(run_end_->culprit, std::nullopt);
  EXPECT_THAT(run_end_->failures, IsEmpty());
}

TEST_F(SupervisorTest, InterruptDuringAFailedAttemptEndsTheRun) {
  start({.workers = 2, .max_restarts = 1});
  exits(1, ExitedWith{3});
  EXPECT_THAT(step(Interrupted{SIGINT}), ElementsAre("SIGINT to 0"));
  EXPECT_THAT(exits(0, KilledBy{SIGINT}),
              ElementsAre("reap 0", "kill leaked processes", "finish 130"));
  EXPECT_EQ(run_end_->culprit, std::nullopt);
}

TEST_F(SupervisorTest, LostOutputDuringAFailedAttemptEndsTheRun) {
  start({.workers = 2, .max_restarts = 1});
  exits(1, ExitedWith{3});
  step(OutputLost{{ErrorKind::kSystem, "no space"}});
  EXPECT_THAT(exits(0, KilledBy{SIGTERM}),
              ElementsAre("reap 0", "kill leaked processes", "finish 125"));
}

TEST_F(SupervisorTest, DoesNotRestartIfAWorkerCannotBeKilled) {
  start({.workers = 2, .max_restarts = 1});
  exits(1, ExitedWith{3}, seconds(1));
  step(Tick{}, seconds(31));
  EXPECT_THAT(step(Tick{}, seconds(61)),
              ElementsAre("close output of 0", "kill leaked processes", "finish 3"));
}

TEST_F(SupervisorTest, TimeoutCoversAllAttempts) {
  start({.workers = 1, .max_restarts = 5, .timeout = seconds(60)});
  exits(0, ExitedWith{3}, seconds(50));
  EXPECT_EQ(supervisor_->next_deadline(), kRunStart + seconds(60));
  step(Spawned{LocalRank(0)}, seconds(50));
  EXPECT_THAT(exits(0, ExitedWith{3}, seconds(60)),
              ElementsAre("SIGTERM to 0", "reap 0", "kill leaked processes", "finish 3"));
}

TEST_F(SupervisorTest, DoesNotRestartAfterAFailedStart) {
  Supervisor supervisor({.workers = 1, .max_restarts = 5});
  supervisor.start(kRunStart);
  const SupervisorEvent failed = SpawnFailed{LocalRank(0), {ErrorKind::kNotExecutable, "no"}};
  EXPECT_THAT(texts(supervisor.step(failed, kRunStart)),
              ElementsAre("kill leaked processes", "finish 126"));
}

TEST_F(SupervisorTest, ForwardsSignalsToRunningWorkers) {
  start({.workers = 3});
  exits(1, kOk);
  EXPECT_THAT(step(Forwarded{SIGUSR2}), ElementsAre("SIGUSR2 on to 0", "SIGUSR2 on to 2"));
}

TEST_F(SupervisorTest, SuspendingStopsWorkersAndDeadlines) {
  start({.workers = 1,
         .shutdown_timeout = seconds(5),
         .first_reminder = seconds(60),
         .timeout = seconds(60)});
  EXPECT_THAT(step(SuspendAsked{}, seconds(10)), ElementsAre("SIGSTOP to 0", "suspend"));
  EXPECT_EQ(supervisor_->next_deadline(), std::nullopt);
  EXPECT_THAT(step(Continued{}, seconds(110)), ElementsAre("SIGCONT to 0"));
  EXPECT_EQ(supervisor_->next_deadline(), kRunStart + seconds(160));
  step(Interrupted{SIGTERM}, seconds(120));
  step(SuspendAsked{}, seconds(121));
  step(Continued{}, seconds(131));
  EXPECT_EQ(supervisor_->next_deadline(), kRunStart + seconds(135));
}

// Otherwise a second SIGTSTP would stop the run again when it resumes.
TEST_F(SupervisorTest, CountsTwoSuspensionsAtOnceAsOne) {
  start({.workers = 1});
  step(SuspendAsked{}, seconds(10));
  step(Continued{}, seconds(20));
  EXPECT_THAT(step(SuspendAsked{}, seconds(20)), IsEmpty());
  EXPECT_THAT(step(SuspendAsked{}, seconds(21)), ElementsAre("SIGSTOP to 0", "suspend"));
}

// Its process already exists, and would continue to run.
TEST_F(SupervisorTest, SuspensionWaitsForAWorkerBeingStarted) {
  Supervisor supervisor({.workers = 3});
  supervisor.start(kRunStart);
  supervisor.step(Spawned{LocalRank(0)}, kRunStart);
  EXPECT_THAT(texts(supervisor.step(SuspendAsked{}, kRunStart)), IsEmpty());
  EXPECT_THAT(texts(supervisor.step(Spawned{LocalRank(1)}, kRunStart)),
              ElementsAre("SIGSTOP to 0", "SIGSTOP to 1", "suspend", "spawn 2"));
  EXPECT_THAT(texts(supervisor.step(Continued{}, kRunStart)),
              ElementsAre("SIGCONT to 0", "SIGCONT to 1"));
}

TEST_F(SupervisorTest, SuspendsEvenIfTheStartFails) {
  Supervisor supervisor({.workers = 2});
  supervisor.start(kRunStart);
  supervisor.step(Spawned{LocalRank(0)}, kRunStart);
  supervisor.step(SuspendAsked{}, kRunStart);
  const SupervisorEvent failed = SpawnFailed{LocalRank(1), {ErrorKind::kSystem, "no"}};
  EXPECT_THAT(texts(supervisor.step(failed, kRunStart)),
              ElementsAre("SIGSTOP to 0", "suspend", "SIGTERM to 0"));
}

TEST_F(SupervisorTest, ForwardsSignalsToAWorkerBeingStarted) {
  Supervisor supervisor({.workers = 2});
  supervisor.start(kRunStart);
  EXPECT_THAT(texts(supervisor.step(Forwarded{SIGUSR2}, kRunStart)), IsEmpty());
  EXPECT_THAT(texts(supervisor.step(Spawned{LocalRank(0)}, kRunStart)),
              ElementsAre("SIGUSR2 on to 0", "spawn 1"));
}

TEST_F(SupervisorTest, KillsTheRunIfTheGuardIsLost) {
  start({.workers = 2, .max_restarts = 1});
  EXPECT_THAT(step(GuardLost{}),
              ElementsAre("SIGTERM to 0", "SIGTERM to 1", "SIGKILL to 0", "SIGKILL to 1"));
  exits(0, KilledBy{SIGKILL});
  EXPECT_THAT(exits(1, KilledBy{SIGKILL}),
              ElementsAre("reap 1", "kill leaked processes", "finish 137"));
}

TEST_F(SupervisorTest, DoesNotRestartIfTheGuardIsLost) {
  start({.workers = 2, .max_restarts = 1});
  exits(1, ExitedWith{3});
  EXPECT_THAT(step(GuardLost{}), ElementsAre("SIGTERM to 0", "SIGKILL to 0"));
  EXPECT_THAT(exits(0, KilledBy{SIGKILL}),
              ElementsAre("reap 0", "kill leaked processes", "finish 137"));
}

TEST_F(SupervisorTest, ListsFailuresInTheOrderOfTheirEnds) {
  start({.workers = 3});
  exits(2, ExitedWith{1});
  exits(0, kOk);
  exits(1, KilledBy{SIGABRT});
  EXPECT_THAT(run_end_->failures, ElementsAre(LocalRank(2), LocalRank(1)));
}

}  // namespace
}  // namespace distrun
