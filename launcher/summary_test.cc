#include "launcher/summary.h"

#include <csignal>

#include <gtest/gtest.h>

namespace distrun {
namespace {

class SummaryTest : public ::testing::Test {
 protected:
  SummaryTest()
      : plan_(make_plan({.nproc_per_node = 3, .timeout = std::chrono::milliseconds(1500)},
                        {"/bin/sh", {"sh", "-c", "it's $RANK", "a=b"}}, {})
                  .value()) {
    report_.workers = {{100, std::chrono::milliseconds(10)},
                       {101, std::chrono::milliseconds(3240)},
                       {102, std::chrono::milliseconds(0)}};
    for (const ProcessEnd& end : {ProcessEnd(KilledBy{SIGTERM}), ProcessEnd(KilledBy{SIGSEGV}),
                                  ProcessEnd(KilledBy{SIGTERM})}) {
      report_.run_end.workers.push_back({.end = end, .started = true});
    }
  }

  std::string summary() { return failure_summary(plan_, report_, "node7"); }

  LaunchPlan plan_;
  RunReport report_;
};

TEST_F(SummaryTest, NamesTheCulpritAndTheConsequences) {
  report_.run_end.cause = RunEnd::Cause::kWorkerFailed;
  report_.run_end.culprit = LocalRank(1);
  EXPECT_EQ(summary(),
            "distrun: rank 1 failed: signal SIGSEGV (11)\n"
            "  local rank 1 on node7, pid 101, after 3.2 s\n"
            "  command: sh -c 'it'\\''s $RANK' a=b\n"
            "  ended in consequence: ranks 0, 2 (signal SIGTERM (15))\n");
}

TEST_F(SummaryTest, SaysWhyAWorkerCouldNotBeStarted) {
  report_.run_end = {.cause = RunEnd::Cause::kSpawnFailed,
                     .culprit = LocalRank(0),
                     .error = Error{ErrorKind::kSystem, "vfork: no room"},
                     .workers = std::vector<WorkerOutcome>(3)};
  report_.workers = std::vector<WorkerReport>(3);
  EXPECT_EQ(summary(),
            "distrun: rank 0 could not be started: vfork: no room\n"
            "  command: sh -c 'it'\\''s $RANK' a=b\n");
}

TEST_F(SummaryTest, NamesTheSignalOrTheTimeThatEndedTheRun) {
  report_.run_end.workers = std::vector<WorkerOutcome>(3);
  report_.run_end.cause = RunEnd::Cause::kInterrupted;
  report_.run_end.signal = SIGINT;
  EXPECT_EQ(summary(), "distrun: ended by signal SIGINT (2)\n");
  report_.run_end.cause = RunEnd::Cause::kTimedOut;
  EXPECT_EQ(summary(), "distrun: not finished after 1.5 s (--timeout)\n");
}

TEST_F(SummaryTest, ASuccessIsSilentUnlessSomethingWasLeftBehind) {
  for (auto& worker : report_.run_end.workers) worker.end = ExitedWith{0};
  EXPECT_EQ(summary(), "");
  report_.run_end.workers[2].leaked = true;
  EXPECT_EQ(summary(),
            "distrun: rank 2 left a process behind that held the output open; it was cut off\n");
}

TEST_F(SummaryTest, ManyRanksAreGivenAsRanges) {
  plan_ = make_plan({.nproc_per_node = 500}, {"/bin/true", {"true"}}, {}).value();
  report_.workers = std::vector<WorkerReport>(500);
  report_.run_end.cause = RunEnd::Cause::kWorkerFailed;
  report_.run_end.culprit = LocalRank(250);
  report_.run_end.workers.assign(500, {.end = KilledBy{SIGTERM}, .started = true});
  EXPECT_NE(summary().find("ended in consequence: ranks 0-249, 251-499 (signal SIGTERM (15))\n"),
            std::string::npos)
      << summary();
}

TEST_F(SummaryTest, SaysWhoCouldNotBeKilled) {
  report_.run_end.cause = RunEnd::Cause::kWorkerFailed;
  report_.run_end.culprit = LocalRank(1);
  report_.run_end.workers[2].end.reset();
  EXPECT_NE(summary().find("still there after SIGKILL, stuck in the kernel: rank 2\n"),
            std::string::npos);
}

TEST_F(SummaryTest, SaysWhomTheStoreRefusedOnlyWhereTheRunFailed) {
  report_.refusals = {"no request has the code 71", "no request has the code 71"};
  report_.run_end.cause = RunEnd::Cause::kTimedOut;
  const std::string line = "\n  the store refused a client: no request has the code 71\n";
  EXPECT_NE(summary().find(line), std::string::npos);
  EXPECT_EQ(summary().find(line), summary().rfind(line)) << "once";
  report_.run_end = {.cause = RunEnd::Cause::kSucceeded};
  EXPECT_EQ(summary(), "");
}

}  // namespace
}  // namespace distrun
