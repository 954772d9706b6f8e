#include "launcher/report/summary.h"

#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distrun {
namespace {

using ::testing::ElementsAre;

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

  // All workers have ended, `culprit` first.
  std::string summary() {
    RunEnd& end = report_.run_end;
    end.failures.clear();
    if (end.culprit) end.failures.push_back(*end.culprit);
    for (std::size_t i = 0; i < end.workers.size(); ++i) {
      const LocalRank worker(static_cast<int>(i));
      const auto& how = end.workers[i].end;
      if (how && !succeeded(*how) && worker != end.culprit) end.failures.push_back(worker);
    }
    return failure_summary(plan_, report_, "node7");
  }

  LaunchPlan plan_;
  RunReport report_;
};

TEST_F(SummaryTest, NamesTheCulpritAndTheStoppedWorkers) {
  report_.run_end.cause = RunEnd::Cause::kWorkerFailed;
  report_.run_end.culprit = LocalRank(1);
  EXPECT_EQ(summary(),
            "distrun: rank 1 failed: signal SIGSEGV (11)\n"
            "  local rank 1 on node7, pid 101, after 3.2 s\n"
            "  command: sh -c 'it'\\''s $RANK' a=b\n"
            "  distrun then stopped ranks 0, 2 (signal SIGTERM (15))\n");
}

TEST_F(SummaryTest, ShowsErrorLastLinesAndLogOfTheCulprit) {
  report_.run_end.cause = RunEnd::Cause::kWorkerFailed;
  report_.run_end.culprit = LocalRank(1);
  report_.run_end.attempt = 1;
  plan_.options.max_restarts = 3;
  report_.workers[1].core_dumped = true;
  report_.workers[1].error = "SIGSEGV: no memory at 0x8";
  report_.workers[1].callstack = "#0 train()+0x1c (/home/me/worker+0x12ab)\n";
  report_.workers[1].last_output = "epoch 3\n";
  report_.workers[1].log_folder = "/logs/attempt_1/1";
  report_.out_of_memory = "out of memory, it seems";
  report_.error_not_copied = "write /own.json: permission denied";
  EXPECT_EQ(summary(),
            "distrun: rank 1 failed: signal SIGSEGV (11), core dumped\n"
            "  local rank 1 on node7, pid 101, after 3.2 s, after 1 of 3 restarts\n"
            "  out of memory, it seems\n"
            "  error: SIGSEGV: no memory at 0x8\n"
            "    #0 train()+0x1c (/home/me/worker+0x12ab)\n"
            "  last lines:\n"
            "    epoch 3\n"
            "  log: /logs/attempt_1/1\n"
            "  its error file could not be forwarded: write /own.json: permission denied\n"
            "  command: sh -c 'it'\\''s $RANK' a=b\n"
            "  distrun then stopped ranks 0, 2 (signal SIGTERM (15))\n");
}

TEST_F(SummaryTest, OmitsLastLinesOfASingleWorkerWithoutALog) {
  plan_ = make_plan({.nproc_per_node = 1}, {"/bin/true", {"true"}}, {}).value();
  report_.run_end = {.cause = RunEnd::Cause::kWorkerFailed,
                     .culprit = LocalRank(0),
                     .workers = {{.end = ExitedWith{3}, .started = true}}};
  report_.workers = {{.pid = 7, .last_output = "epoch 3\n"}};
  EXPECT_EQ(summary().find("epoch 3"), std::string::npos);
  report_.workers[0].log_folder = "/logs";
  EXPECT_NE(summary().find("last lines:\n    epoch 3\n  log: /logs\n"), std::string::npos);
}

TEST_F(SummaryTest, SendsTheLastLinesOfASingleWorkerToOtherNodes) {
  plan_ = make_plan({.nproc_per_node = 1}, {"/bin/true", {"true"}}, {}).value();
  report_.run_end = {.cause = RunEnd::Cause::kWorkerFailed,
                     .culprit = LocalRank(0),
                     .workers = {{.end = ExitedWith{3}, .started = true}}};
  report_.workers = {{.pid = 7, .last_output = "epoch 3\n"}};
  EXPECT_NE(verdict_of(plan_, report_, "node7").details.find("last lines:\n    epoch 3\n"),
            std::string::npos);
}

TEST_F(SummaryTest, TracebackPrintedOnTheTerminalIsOneLine) {
  report_.run_end.cause = RunEnd::Cause::kWorkerFailed;
  report_.run_end.culprit = LocalRank(1);
  report_.workers[1].last_output =
      "Traceback (most recent call last):\n"
      "  File \"train.py\", line 3, in load\n"
      "    raise ValueError(digit)\n"
      "ValueError: no digit\n";
  const auto shown = [&](SummaryPlace place) {
    report_.run_end.failures = {LocalRank(1)};
    return failure_summary(plan_, report_, "node7", place);
  };
  EXPECT_EQ(shown(SummaryPlace::kBelowOutput),
            "distrun: rank 1 failed: signal SIGSEGV (11)\n"
            "  local rank 1 on node7, pid 101, after 3.2 s\n"
            "  error: ValueError: no digit\n"
            "  command: sh -c 'it'\\''s $RANK' a=b\n");
  EXPECT_NE(shown(SummaryPlace::kElsewhere).find("last lines:\n    Traceback"), std::string::npos);
  plan_.options.log.shown.emplace();  // The output is not on the terminal.
  EXPECT_NE(shown(SummaryPlace::kBelowOutput).find("last lines:\n    Traceback"),
            std::string::npos);
}

TEST_F(SummaryTest, ListsOtherFailuresInOrderAndTheRestByRank) {
  plan_ = make_plan({.nproc_per_node = 12}, {"/bin/true", {"true"}}, {}).value();
  report_.workers = std::vector<WorkerReport>(12);
  report_.run_end = {.cause = RunEnd::Cause::kWorkerFailed, .culprit = LocalRank(2)};
  report_.run_end.workers.assign(12, {.end = ExitedWith{1}, .started = true});
  report_.run_end.workers[0].end = ExitedWith{0};
  report_.run_end.workers[4].end = KilledBy{SIGKILL};
  report_.run_end.workers[5].end = KilledBy{SIGTERM};
  report_.run_end.workers[6].end = ExitedWith{143};  // SIGTERM, as a shell reports it.
  report_.run_end.workers[7].end = KilledBy{SIGTERM};
  report_.workers[7].error = "E: it wrote an error file";
  for (const int worker : {2, 9, 7, 1, 8, 11, 3, 10, 4, 5, 6}) {
    report_.run_end.failures.emplace_back(worker);
  }
  report_.workers[9].last_output = "a\nb\nc\nd\n";
  EXPECT_EQ(failure_summary(plan_, report_, "node7"),
            "distrun: rank 2 failed: exit code 1\n"
            "  command: true\n"
            "  also failed: rank 9: exit code 1\n"
            "    last lines:\n"
            "      b\n"
            "      c\n"
            "      d\n"
            "  also failed: rank 7: signal SIGTERM (15)\n"
            "    error: E: it wrote an error file\n"
            "  also failed: rank 1: exit code 1\n"
            "  also failed: rank 8: exit code 1\n"
            "  and 3 more failed: ranks 3, 10, 11\n"
            "  distrun then stopped rank 6 (exit code 143)\n"
            "  distrun then stopped rank 4 (signal SIGKILL (9))\n"
            "  distrun then stopped rank 5 (signal SIGTERM (15))\n");
}

TEST_F(SummaryTest, InterruptedRunHasNoOtherFailures) {
  report_.run_end.cause = RunEnd::Cause::kInterrupted;
  report_.run_end.signal = SIGINT;
  report_.run_end.workers[0].end = ExitedWith{1};
  report_.run_end.workers.resize(1);
  EXPECT_EQ(summary(),
            "distrun: ended by signal SIGINT (2)\n"
            "  distrun then stopped rank 0 (exit code 1)\n");
}

TEST_F(SummaryTest, TimeoutReportsWhereTheWorkersWere) {
  plan_.options.timeout = std::chrono::seconds(60);
  report_.run_end = {.cause = RunEnd::Cause::kTimedOut};
  report_.where = "ranks 0-2 in load (a.py:1)";
  EXPECT_EQ(summary(),
            "distrun: timed out after 60 s (--timeout)\n"
            "  workers at that time: ranks 0-2 in load (a.py:1)\n");
  report_.run_end = {.cause = RunEnd::Cause::kInterrupted, .signal = SIGINT};
  EXPECT_EQ(summary(),
            "distrun: ended by signal SIGINT (2)\n"
            "  workers at that time: ranks 0-2 in load (a.py:1)\n");
}

TEST_F(SummaryTest, ReportsWhatNcclSaysAfterTheCollectives) {
  report_.run_end = {.cause = RunEnd::Cause::kTimedOut};
  report_.collectives = "rank 1 has not entered all_reduce";
  report_.nccl = "rank 1 reported System error";
  EXPECT_EQ(summary(),
            "distrun: timed out after 1.5 s (--timeout)\n"
            "  collectives: rank 1 has not entered all_reduce\n"
            "  NCCL: rank 1 reported System error\n");
}

TEST_F(SummaryTest, NamesStragglersIfTheUserAsksForCollectives) {
  report_.run_end = {.cause = RunEnd::Cause::kSucceeded};
  report_.stragglers = {{.rank = 1,
                         .times_last = 20,
                         .collectives = 20,
                         .lateness = std::chrono::milliseconds(2),
                         .share = 0.1}};
  EXPECT_EQ(summary(), "");
  plan_.options.collectives = true;
  const std::string line =
      "rank 1 delays the others: it entered 20 of 20 collectives last, 2.0 ms late (10 % of each "
      "step)\n";
  EXPECT_EQ(summary(), "distrun: " + line);
  report_.run_end = {.cause = RunEnd::Cause::kTimedOut};
  EXPECT_EQ(summary(), "distrun: timed out after 1.5 s (--timeout)\n  " + line);
}

TEST_F(SummaryTest, EveryNodeReportsTheSameCulprit) {
  report_.run_end.cause = RunEnd::Cause::kWorkerFailed;
  report_.run_end.culprit = LocalRank(1);
  place_ranks(plan_, {.rank_base = 4, .world_size = 7});
  NodesVerdict verdict = verdict_of(plan_, report_, "node7");
  EXPECT_EQ(verdict.status, 139);
  verdict.node = 1;
  verdict.notes = "  node 2 (node8) is lost too: its connection has ended\n";
  report_.run_end.verdict = verdict;
  const std::string begin =
      "distrun: node 1 (node7): rank 5 failed: signal SIGSEGV (11)\n"
      "  local rank 1 on node7, pid 101, after 3.2 s\n"
      "  command: sh -c 'it'\\''s $RANK' a=b\n"
      "  node 2 (node8) is lost too: its connection has ended\n";
  EXPECT_EQ(summary(), begin + "  distrun then stopped ranks 4, 6 (signal SIGTERM (15))\n");

  report_.run_end.cause = RunEnd::Cause::kOtherNode;
  report_.run_end.culprit.reset();
  report_.run_end.workers.assign(3, {.end = KilledBy{SIGTERM}, .started = true});
  place_ranks(plan_, {.rank_base = 0, .world_size = 7});
  EXPECT_EQ(summary(), begin + "  distrun then stopped ranks 0-2 (signal SIGTERM (15))\n");
  EXPECT_EQ(exit_status(report_.run_end), 139);
}

TEST_F(SummaryTest, ReportsWhyAWorkerDidNotStart) {
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
  EXPECT_EQ(verdict_of(plan_, report_, "host").signal, SIGINT) << "workers of other nodes get it";
  report_.run_end.signal = SIGPIPE;
  EXPECT_EQ(verdict_of(plan_, report_, "host").signal, 0) << "and not this one";
  report_.run_end.cause = RunEnd::Cause::kTimedOut;
  EXPECT_EQ(summary(), "distrun: timed out after 1.5 s (--timeout)\n");
  plan_.options.hang_after = std::chrono::seconds(300);
  report_.run_end.cause = RunEnd::Cause::kHung;
  report_.where = "rank 1 in load (train.py:7)";
  EXPECT_EQ(summary(),
            "distrun: no progress for 300 s (--hang-after)\n"
            "  workers at that time: rank 1 in load (train.py:7)\n");
}

TEST_F(SummaryTest, SuccessIsSilentUnlessSomethingLeaked) {
  for (auto& worker : report_.run_end.workers) worker.end = ExitedWith{0};
  EXPECT_EQ(summary(), "");
  report_.run_end.workers[2].leaked = true;
  EXPECT_EQ(summary(),
            "distrun: rank 2 leaked a process that kept the output open; the output was cut off\n");
}

TEST_F(SummaryTest, ShowsManyRanksAsRanges) {
  plan_ = make_plan({.nproc_per_node = 500}, {"/bin/true", {"true"}}, {}).value();
  report_.workers = std::vector<WorkerReport>(500);
  report_.run_end.cause = RunEnd::Cause::kWorkerFailed;
  report_.run_end.culprit = LocalRank(250);
  report_.run_end.workers.assign(500, {.end = KilledBy{SIGTERM}, .started = true});
  EXPECT_NE(summary().find("distrun then stopped ranks 0-249, 251-499 (signal SIGTERM (15))\n"),
            std::string::npos)
      << summary();
}

TEST_F(SummaryTest, NamesWorkersThatSurviveSigkill) {
  report_.run_end.cause = RunEnd::Cause::kWorkerFailed;
  report_.run_end.culprit = LocalRank(1);
  report_.run_end.workers[2].end.reset();
  EXPECT_NE(summary().find("survived SIGKILL, stuck in the kernel: rank 2\n"), std::string::npos);
}

TEST_F(SummaryTest, ReportsRefusedStoreClientsOnlyIfTheRunFailed) {
  report_.refusals = {"no request has the code 71", "no request has the code 71"};
  report_.run_end.cause = RunEnd::Cause::kTimedOut;
  const std::string line = "\n  the store refused a client: no request has the code 71\n";
  EXPECT_NE(summary().find(line), std::string::npos);
  EXPECT_EQ(summary().find(line), summary().rfind(line)) << "once";
  report_.run_end = {.cause = RunEnd::Cause::kSucceeded};
  EXPECT_EQ(summary(), "");
}

// The nodes that print the end of a run of four nodes.
std::vector<int> tellers(const RunEnd& end, bool shares_console = true) {
  std::vector<int> nodes;
  for (int node = 0; node < 4; ++node) {
    LaunchPlan plan;
    plan.options.shares_console = shares_console;
    plan.options.nnodes = 4;
    plan.options.node_rank = node;
    if (tells_end(plan, end)) nodes.push_back(node);
  }
  return nodes;
}

TEST(TellsEndTest, UnderAnEngineOneNodeTells) {
  RunEnd end;
  end.cause = RunEnd::Cause::kOtherNode;
  end.verdict = NodesVerdict{.status = 7, .node = 2, .host = "n2", .headline = "rank 5 failed"};
  EXPECT_THAT(tellers(end), ElementsAre(0));
  end.verdict->is_of_node_0 = false;
  EXPECT_THAT(tellers(end), ElementsAre(1)) << "node 0 is lost";
  end.verdict.reset();
  EXPECT_THAT(tellers(end), ElementsAre(0)) << "node 0 will know";
}

TEST(TellsEndTest, EveryNodeTellsIfItCannotJoinOrTheUserStartedIt) {
  RunEnd end;
  end.cause = RunEnd::Cause::kOtherNode;
  EXPECT_THAT(tellers(end, false), ElementsAre(0, 1, 2, 3));
  end.cause = RunEnd::Cause::kNotJoined;
  EXPECT_THAT(tellers(end), ElementsAre(0, 1, 2, 3));
}

}  // namespace
}  // namespace distrun
