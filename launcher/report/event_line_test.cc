#include "launcher/report/event_line.h"

#include <csignal>

#include <gtest/gtest.h>

namespace distrun {
namespace {

using std::chrono::milliseconds;

// The second of two nodes, with ten workers: ranks 10 to 19.
LaunchPlan ten_workers() {
  LaunchPlan plan;
  for (int i = 0; i < 10; ++i) plan.workers.push_back({Rank(10 + i), LocalRank(i), {"./worker"}});
  return plan;
}

WorkersStillRunning still_running(int workers) {
  WorkersStillRunning event{.until_kill = milliseconds(28001)};
  for (int i = 0; i < workers; ++i) event.workers.push_back({LocalRank(i), 700 + i});
  return event;
}

TEST(EventLineTest, NamesWorkersThatStillRun) {
  EXPECT_EQ(event_line(ten_workers(), still_running(1)),
            "distrun: rank 10 (pid 700) still runs; SIGKILL follows in 29 s\n");
  EXPECT_EQ(
      event_line(ten_workers(), still_running(3)),
      "distrun: rank 10 (pid 700), rank 11 (pid 701) and rank 12 (pid 702) still run; SIGKILL "
      "follows in 29 s\n");
}

TEST(EventLineTest, AnnouncesSigkillOnlyIfItFollows) {
  WorkersStillRunning event = still_running(1);
  event.until_kill.reset();
  EXPECT_EQ(event_line(ten_workers(), event), "distrun: rank 10 (pid 700) still runs\n");
  event.signal = SIGINT;
  EXPECT_EQ(event_line(ten_workers(), event),
            "distrun: rank 10 (pid 700) still runs; SIGKILL follows if you press Ctrl-C again\n");
}

TEST(EventLineTest, ReportsWhereTheWorkersAre) {
  EXPECT_EQ(
      event_line(ten_workers(), StacksRead{0, {"rank 10 in load (a.py:1)", "  load (a.py:1)\n"}}),
      "distrun: where the workers are: rank 10 in load (a.py:1)\n"
      "  load (a.py:1)\n");
  EXPECT_EQ(event_line(ten_workers(), StacksRead{0, {"", "  rank 10: no stack: it has ended\n"}}),
            "distrun: where the workers are:\n"
            "  rank 10: no stack: it has ended\n");
}

TEST(EventLineTest, PrintsTheCollectivesOfRanksBeforeTheirStacks) {
  EXPECT_EQ(event_line(ten_workers(), StacksRead{.recorded = "c"}), "distrun: collectives: c\n");
  EXPECT_EQ(event_line(ten_workers(),
                       StacksRead{.where = {"w", "  s\n"}, .recorded = "c", .on_gpus = "g"}),
            "distrun: collectives: c; g\ndistrun: where the workers are: w\n  s\n");
  EXPECT_EQ(
      event_line(ten_workers(), StacksRead{.where = {"w", "  s\n"}, .on_gpus = "g", .nccl = "n"}),
      "distrun: collectives: g\ndistrun: NCCL: n\ndistrun: where the workers are: w\n  s\n");
}

TEST(EventLineTest, NamesAStragglerOnlyOnRequest) {
  LaunchPlan plan = ten_workers();
  const StragglerFound found{0, {.rank = 12, .times_last = 18, .collectives = 20}};
  EXPECT_EQ(event_line(plan, found), "");
  plan.options.collectives = true;
  EXPECT_EQ(event_line(plan, found),
            "distrun: rank 12 delays the others: it entered 18 of 20 collectives last, 0.0 ms "
            "late (0 % of each step)\n");
}

TEST(EventLineTest, NamesRanksWithDifferentValues) {
  const DigestDifference difference{.operation = {.op = "broadcast", .group = "0", .sequence = 2},
                                    .ranks = {{10, 11}, {12}},
                                    .elements = std::nullopt};
  EXPECT_EQ(event_line(ten_workers(), ValuesDiffer{0, difference}),
            "distrun: rank 12 received other values than ranks 10, 11 in broadcast, number 2 of "
            "group 0\n");
  EXPECT_EQ(event_line(ten_workers(), ValuesCompared{0, 84, 0}), "");
  EXPECT_EQ(event_line(ten_workers(), ValuesCompared{0, 84, 3}),
            "distrun: --digest: 3 operations of the ranks were too fast to be compared\n");
}

TEST(EventLineTest, SaysWhetherTheRunIsAsTheRecordedOne) {
  const RecordDifference difference{.kind = RecordDifference::Kind::kInputs,
                                    .operation = {.op = "broadcast", .group = "0", .sequence = 2},
                                    .ranks = {12},
                                    .recorded_call = {},
                                    .elements = {}};
  EXPECT_EQ(event_line(ten_workers(), RecordingDiffers{0, difference}),
            "distrun: rank 12 passed other values than in the recorded run to broadcast, number 2 "
            "of group 0\n");
  EXPECT_EQ(event_line(ten_workers(), RecordingCompared{0, 84, 84, true}),
            "distrun: --compare-digests: 84 collectives compared, no difference\n");
  EXPECT_EQ(event_line(ten_workers(), RecordingCompared{0, 84, 90, false}), "");
  EXPECT_EQ(
      event_line(ten_workers(), RecordingCompared{0, 84, 90, true}),
      "distrun: --compare-digests: no difference, but only 84 of 90 recorded collectives were "
      "compared\n");
  EXPECT_EQ(
      event_line(ten_workers(), RecordingCompared{0, 0, 90, true}),
      "distrun: --compare-digests: no collective was compared; docs/collectives.md says which "
      "ones distrun sees\n");
}

TEST(EventLineTest, NamesEightOfManyWorkers) {
  EXPECT_EQ(event_line(ten_workers(), still_running(9)).find("others"), std::string::npos);
  const std::string line = event_line(ten_workers(), still_running(10));
  EXPECT_NE(line.find("rank 17 (pid 707) and 2 others still run"), std::string::npos) << line;
}

TEST(EventLineTest, NamesTheSignalThatKillsWorkersAtOnce) {
  WorkersStillRunning event = still_running(1);
  event.signal = SIGINT;
  EXPECT_EQ(
      event_line(ten_workers(), event),
      "distrun: rank 10 (pid 700) still runs; SIGKILL follows in 29 s, or at once if you press "
      "Ctrl-C again\n");
  event.signal = SIGTERM;
  EXPECT_EQ(event_line(ten_workers(), event),
            "distrun: rank 10 (pid 700) still runs; SIGKILL follows in 29 s, or at once after a "
            "second SIGTERM\n");
}

}  // namespace
}  // namespace distrun
