#include "launcher/report/event_json.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace distrun {
namespace {

using std::chrono::milliseconds;
using std::chrono::system_clock;

const system_clock::time_point kTime(milliseconds(1772366400250));  // 12:00:00.25, 1 March 2026.

// The second of two nodes, with two workers.
LaunchPlan plan() {
  LaunchPlan plan;
  plan.options.run_id = "r1";
  plan.options.node_rank = 1;
  for (int i = 0; i < 2; ++i) plan.workers.push_back({Rank(2 + i), LocalRank(i), {"./worker"}});
  return plan;
}

std::string line(const RunEvent& event) { return event_json(event, plan(), "node7", kTime); }

const std::string kLineStart = R"({"time":"2026-03-01T12:00:00.250Z","event":")";
const std::string kFrom = R"(","run_id":"r1","host":"node7","node_rank":1)";

RunEnd failed_by(const ProcessEnd& end) {
  return {.cause = RunEnd::Cause::kWorkerFailed,
          .culprit = LocalRank(1),
          .workers = {{KilledBy{SIGTERM}, true}, {end, true}}};
}

TEST(EventJsonTest, StartNamesLauncherAndStore) {
  EXPECT_EQ(line(RunStarted{.launcher_pid = 42, .store = "127.0.0.1:29500"}),
            kLineStart + "run_started" + kFrom +
                R"(,"launcher_pid":42,"store":"127.0.0.1:29500","workers":2})");
  EXPECT_EQ(line(AttemptStarted{3}), kLineStart + "attempt_started" + kFrom + R"(,"attempt":3})");
}

TEST(EventJsonTest, NamesWorkersByRankAndLocalRank) {
  EXPECT_EQ(line(WorkerStarted{.attempt = 1, .worker = LocalRank(1), .pid = 4711}),
            kLineStart + "worker_started" + kFrom +
                R"(,"attempt":1,"rank":3,"local_rank":1,"pid":4711})");
  EXPECT_EQ(line(OutputLeaked{1, LocalRank(0)}),
            kLineStart + "output_leaked" + kFrom + R"(,"attempt":1,"rank":2,"local_rank":0})");
}

TEST(EventJsonTest, WorkerEndIsAnExitCodeOrASignal) {
  WorkerEnded ended{
      .worker = LocalRank(0), .pid = 7, .end = ExitedWith{3}, .run_time = milliseconds(3250)};
  const std::string worker = R"(,"attempt":0,"rank":2,"local_rank":0,"pid":7)";
  EXPECT_EQ(line(ended),
            kLineStart + "worker_ended" + kFrom + worker + R"(,"exit_code":3,"run_time_s":3.25})");
  ended.end = KilledBy{SIGSEGV};
  EXPECT_EQ(line(ended), kLineStart + "worker_ended" + kFrom + worker +
                             R"(,"signal":"SIGSEGV","run_time_s":3.25})");
}

TEST(EventJsonTest, ReportsSignalsAndSuspension) {
  EXPECT_EQ(line(SignalReceived{SIGUSR2, true}),
            kLineStart + "signal_received" + kFrom + R"(,"signal":"SIGUSR2","forwarded":true})");
  EXPECT_EQ(line(RunSuspended{}), kLineStart + "run_suspended" + kFrom + "}");
  EXPECT_EQ(line(RunContinued{}), kLineStart + "run_continued" + kFrom + "}");
}

TEST(EventJsonTest, ListsWorkersThatStillRun) {
  EXPECT_EQ(
      line(WorkersStillRunning{
          .attempt = 1, .workers = {{LocalRank(1), 4711}}, .until_kill = milliseconds(29000)}),
      kLineStart + "workers_still_running" + kFrom +
          R"(,"attempt":1,"workers":[{"rank":3,"local_rank":1,"pid":4711}],"kill_in_s":29.0})");
}

TEST(EventJsonTest, ReportsWhereTheWorkersAre) {
  EXPECT_EQ(
      line(StacksRead{1, {"rank 2 in load (a.py:1)", "  load (a.py:1)\n"}}),
      kLineStart + "stacks_read" + kFrom +
          R"json(,"attempt":1,"where":"rank 2 in load (a.py:1)","stacks":"  load (a.py:1)\n"})json");
}

TEST(EventJsonTest, StacksComeWithTheCollectivesOfRanks) {
  EXPECT_EQ(
      line(StacksRead{.where = {"w", "s\n"}, .on_gpus = "rank 2 has not entered it"}),
      kLineStart + "stacks_read" + kFrom +
          R"(,"attempt":0,"collectives":"rank 2 has not entered it","where":"w","stacks":"s\n"})");
  EXPECT_EQ(line(StacksRead{.where = {"w", "s\n"}, .nccl = "rank 2 reported it"}),
            kLineStart + "stacks_read" + kFrom +
                R"(,"attempt":0,"nccl":"rank 2 reported it","where":"w","stacks":"s\n"})");
}

TEST(EventJsonTest, NamesAStraggler) {
  const Straggler straggler{.rank = 3,
                            .times_last = 18,
                            .collectives = 20,
                            .lateness = milliseconds(2),
                            .share = 0.125,
                            .group = "0",
                            .number = 21};
  EXPECT_EQ(line(StragglerFound{1, straggler}),
            kLineStart + "straggler_found" + kFrom +
                R"(,"attempt":1,"rank":3,"group":"0","number":21,"times_last":18,)"
                R"("collectives":20,"lateness_s":0.002,"share":0.125})");
}

TEST(EventJsonTest, ListsRanksWithDifferentValues) {
  DigestDifference difference{.operation = {.op = "all_reduce", .group = "0", .sequence = 12},
                              .ranks = {{0, 1, 3}, {2}},
                              .elements = ElementRange{64, 128}};
  EXPECT_EQ(line(ValuesDiffer{0, difference}),
            kLineStart + "values_differ" + kFrom +
                R"(,"attempt":0,"op":"all_reduce","group":"0","number":12,"ranks":[[0,1,3],[2]],)"
                R"("elements":[64,127],"text":"rank 2 received other values than ranks 0, 1, 3 in )"
                R"(all_reduce, number 12 of group 0, in elements 64 to 127"})");
  EXPECT_EQ(line(ValuesCompared{1, 84, 2}), kLineStart + "values_compared" + kFrom +
                                                R"(,"attempt":1,"collectives":84,"missed":2})");
}

TEST(EventJsonTest, SaysWhatDiffersFromTheRecordedRun) {
  RecordDifference difference{.kind = RecordDifference::Kind::kInputs,
                              .operation = {.op = "all_reduce", .group = "0", .sequence = 12},
                              .ranks = {2},
                              .recorded_call = {},
                              .elements = {}};
  const std::string begin = kLineStart + "recording_differs" + kFrom + R"(,"attempt":0,"what":)";
  const std::string call = R"(,"op":"all_reduce","group":"0","number":12,"ranks":[2],)";
  EXPECT_EQ(line(RecordingDiffers{0, difference}),
            begin + R"("inputs")" + call +
                R"("text":"rank 2 passed other values than in the recorded run to all_reduce, )"
                R"(number 12 of group 0"})");
  difference.kind = RecordDifference::Kind::kCall;
  difference.recorded_call = "barrier";
  EXPECT_EQ(line(RecordingDiffers{0, difference}),
            begin + R"("call")" + call +
                R"("text":"rank 2 called all_reduce, number 12 of group 0; the recorded run )"
                R"(called barrier there"})");
  difference.kind = RecordDifference::Kind::kOutputs;
  difference.elements = {64, 128};
  EXPECT_EQ(line(RecordingDiffers{0, difference}),
            begin + R"("outputs")" + call +
                R"("elements":[64,127],"text":"rank 2 received other values than in the recorded )"
                R"(run in all_reduce, number 12 of group 0, in elements 64 to 127"})");
  EXPECT_EQ(line(RecordingCompared{1, 84, 90, false}),
            kLineStart + "recording_compared" + kFrom +
                R"(,"attempt":1,"collectives":84,"recorded":90,"same":false})");
}

TEST(EventJsonTest, ListsLeakedProcessesEvenIfNamesAreNotUtf8) {
  EXPECT_EQ(line(LeakedProcessesKilled{2, {{5, "a \"b\"\n"}, {6, "\xff"}}}),
            kLineStart + "leaked_processes_killed" + kFrom +
                R"(,"attempt":2,"processes":[{"pid":5,"name":"a \"b\"\n"},{"pid":6,"name":"�"}]})");
}

TEST(EventJsonTest, FailureNamesTheCulpritAndItsEnd) {
  EXPECT_EQ(line(AttemptFailed{.attempt = 0, .end = failed_by(ExitedWith{7})}),
            kLineStart + "attempt_failed" + kFrom +
                R"(,"attempt":0,"cause":"worker_failed","exit_status":7,)"
                R"("culprit":{"rank":3,"local_rank":1,"exit_code":7}})");
  EXPECT_EQ(line(RunEnded{failed_by(KilledBy{SIGKILL})}),
            kLineStart + "run_ended" + kFrom +
                R"(,"cause":"worker_failed","exit_status":137,)"
                R"("culprit":{"rank":3,"local_rank":1,"signal":"SIGKILL"}})");
}

TEST(EventJsonTest, EndWithoutCulpritHasAReason) {
  EXPECT_EQ(line(RunEnded{{}}),
            kLineStart + "run_ended" + kFrom + R"(,"cause":"succeeded","exit_status":0})");
  EXPECT_EQ(line(RunEnded{{.cause = RunEnd::Cause::kInterrupted, .signal = SIGINT}}),
            kLineStart + "run_ended" + kFrom +
                R"(,"cause":"interrupted","exit_status":130,"signal":"SIGINT"})");
  EXPECT_EQ(line(RunEnded{{.cause = RunEnd::Cause::kOutputLost,
                           .error = Error{ErrorKind::kSystem, "write: no space"}}}),
            kLineStart + "run_ended" + kFrom +
                R"(,"cause":"output_lost","exit_status":125,"error":"write: no space"})");
  EXPECT_EQ(line(RunEnded{{.cause = RunEnd::Cause::kOtherNode,
                           .verdict = NodesVerdict{7, 1, "gpu-1", "rank 3 failed", "", ""}}}),
            kLineStart + "run_ended" + kFrom +
                R"(,"cause":"other_node","exit_status":7,)"
                R"("verdict":{"node_rank":1,"host":"gpu-1","headline":"rank 3 failed"}})");
}

TEST(EventJsonTest, CulpritThatDidNotStartHasNoEnd) {
  const auto json = nlohmann::json::parse(
      line(RunEnded{{.cause = RunEnd::Cause::kSpawnFailed,
                     .culprit = LocalRank(0),
                     .error = Error{ErrorKind::kNotFound, "exec x: no such file or directory"},
                     .workers = {{}, {}}}}));
  EXPECT_EQ(json["culprit"], nlohmann::json({{"rank", 2}, {"local_rank", 0}}));
  EXPECT_EQ(json["exit_status"], 127);
}

TEST(EventJsonTest, FormatsTimesBefore1970) {
  const auto before = system_clock::time_point(milliseconds(-1));
  EXPECT_EQ(nlohmann::json::parse(event_json(RunContinued{}, plan(), "h", before))["time"],
            "1969-12-31T23:59:59.999Z");
}

}  // namespace
}  // namespace distrun
