#include "launcher/report/run_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distrun {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::Not;

const RunMetrics::Time kStart(milliseconds(1'735'689'600'250));

class RunMetricsTest : public ::testing::Test {
 protected:
  RunMetricsTest() {
    plan_.options.run_id = "a \"b\"\\\n\xff";
    for (int i = 0; i < 2; ++i) plan_.workers.push_back({Rank(2 + i), LocalRank(i), {"./worker"}});
    snapshot_.workers = {{.rank = 2,
                          .pid = 4711,
                          .cpu_time = milliseconds(31'250),
                          .memory_bytes = 851'443'712,
                          .processes = 1,
                          .output_bytes = 5000,
                          .operations = 31,
                          .last_collective = 30},
                         {.rank = 3}};
  }
  std::string text() const { return metrics_.text(snapshot_); }

  LaunchPlan plan_;
  RunSnapshot snapshot_;
  RunMetrics metrics_{plan_, "node7"};
};

TEST_F(RunMetricsTest, WritesARun) {
  metrics_.happened(AttemptStarted{1}, kStart);
  metrics_.happened(WorkerStarted{1, LocalRank(0), 4711}, kStart);
  snapshot_.attempt = 1;
  EXPECT_EQ(text(), R"(# HELP distrun_run_info The run and this node; always 1.
# TYPE distrun_run_info gauge
distrun_run_info{run_id="a \"b\"\\\n�",host="node7",node_rank="0"} 1
# HELP distrun_run_workers Workers of this node.
# TYPE distrun_run_workers gauge
distrun_run_workers 2
# HELP distrun_run_restarts_total Restarts of the run.
# TYPE distrun_run_restarts_total counter
distrun_run_restarts_total 1
# HELP distrun_worker_up 1 if the worker is running.
# TYPE distrun_worker_up gauge
distrun_worker_up{rank="2"} 1
distrun_worker_up{rank="3"} 0
# HELP distrun_worker_pid Process id of the worker.
# TYPE distrun_worker_pid gauge
distrun_worker_pid{rank="2"} 4711
# HELP distrun_worker_start_time_seconds When the worker started, in seconds since 1970.
# TYPE distrun_worker_start_time_seconds gauge
distrun_worker_start_time_seconds{rank="2"} 1735689600.250
# HELP distrun_worker_cpu_seconds_total CPU time of the worker's own process in this attempt.
# TYPE distrun_worker_cpu_seconds_total counter
distrun_worker_cpu_seconds_total{rank="2"} 31.25
# HELP distrun_worker_resident_memory_bytes Resident memory of the worker's own process.
# TYPE distrun_worker_resident_memory_bytes gauge
distrun_worker_resident_memory_bytes{rank="2"} 851443712
# HELP distrun_worker_processes Processes in the worker's session, with the worker.
# TYPE distrun_worker_processes gauge
distrun_worker_processes{rank="2"} 1
distrun_worker_processes{rank="3"} 0
# HELP distrun_worker_output_bytes_total Bytes that the worker wrote to stdout and stderr in this attempt.
# TYPE distrun_worker_output_bytes_total counter
distrun_worker_output_bytes_total{rank="2"} 5000
distrun_worker_output_bytes_total{rank="3"} 0
# HELP distrun_worker_operations_total Collectives, sends and receives that the worker started in this attempt.
# TYPE distrun_worker_operations_total counter
distrun_worker_operations_total{rank="2"} 31
# HELP distrun_worker_last_collective_number Number in its group of the last collective that the worker started.
# TYPE distrun_worker_last_collective_number gauge
distrun_worker_last_collective_number{rank="2"} 30
# HELP distrun_worker_straggler 1 if the worker held up the others in this attempt.
# TYPE distrun_worker_straggler gauge
distrun_worker_straggler{rank="2"} 0
distrun_worker_straggler{rank="3"} 0
# HELP distrun_worker_values_differ 1 if the worker received other values than most workers in this attempt (--digest).
# TYPE distrun_worker_values_differ gauge
distrun_worker_values_differ{rank="2"} 0
distrun_worker_values_differ{rank="3"} 0
)");
}

TEST_F(RunMetricsTest, StragglersAndOtherValuesAreThoseOfTheAttempt) {
  metrics_.happened(AttemptStarted{0}, kStart);
  metrics_.happened(StragglerFound{0, {.rank = 3}}, kStart);
  metrics_.happened(StragglerFound{0, {.rank = 7}}, kStart);  // Of another node.
  metrics_.happened(ValuesDiffer{0, {.ranks = {{3, 4}, {2}}}}, kStart);
  EXPECT_THAT(text(), HasSubstr("straggler{rank=\"2\"} 0\ndistrun_worker_straggler{rank=\"3\"} 1"));
  EXPECT_THAT(text(),
              HasSubstr("differ{rank=\"2\"} 1\ndistrun_worker_values_differ{rank=\"3\"} 0"));
  metrics_.happened(AttemptStarted{1}, kStart);
  EXPECT_THAT(text(), Not(HasSubstr("straggler{rank=\"3\"} 1")));
  EXPECT_THAT(text(), Not(HasSubstr("differ{rank=\"2\"} 1")));
}

TEST_F(RunMetricsTest, EqualNumbersOfRanksAllDiffer) {
  metrics_.happened(AttemptStarted{0}, kStart);
  metrics_.happened(ValuesDiffer{0, {.ranks = {{2}, {3}}}}, kStart);
  EXPECT_THAT(text(),
              HasSubstr("differ{rank=\"2\"} 1\ndistrun_worker_values_differ{rank=\"3\"} 1"));
}

TEST_F(RunMetricsTest, AnEndedWorkerIsDown) {
  metrics_.happened(AttemptStarted{0}, kStart);
  metrics_.happened(WorkerStarted{0, LocalRank(1), 4712}, kStart);
  metrics_.happened(WorkerEnded{0, LocalRank(1), 4712, ExitedWith{0}, {}}, kStart);
  EXPECT_THAT(text(), HasSubstr("distrun_worker_up{rank=\"3\"} 0\n"));
}

TEST_F(RunMetricsTest, BeforeTheFirstAttemptThereIsTheRunOnly) {
  EXPECT_THAT(text(), HasSubstr("distrun_run_workers 2\n"));
  EXPECT_THAT(text(), Not(HasSubstr("{rank=")));
}

}  // namespace
}  // namespace distrun
