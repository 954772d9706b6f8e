// RunReporter says what happens in a run: it gives events to the listener, gathers the RunReport,
// and prints the worker table and the summary.
//
//     RunReporter reporter(plan, context, output);
//     reporter.tell(WorkerStarted{0, LocalRank(1), 4711});
//     reporter.begin_finish(run_end, place);
//     reporter.finish();
//
// Thread safety: every method runs on the thread of the run.
#pragma once

#include <string>
#include <vector>

#include "common/rank.h"
#include "launcher/outcome/run_event.h"
#include "launcher/outcome/run_report.h"
#include "launcher/plan/plan.h"
#include "launcher/plan/worker_environment.h"
#include "launcher/process/oom_kills.h"
#include "launcher/report/worker_table.h"
#include "launcher/run/launch_context.h"
#include "launcher/run/run_output.h"

namespace distrun {

class RunReporter {
 public:
  // All must outlive it.
  RunReporter(const LaunchPlan& plan, const LaunchContext& context, RunOutput& output);

  // Gives `event` to the listener, and prints what that returns.
  void tell(const RunEvent& event);

  // Forgets the workers of the previous attempt.
  void attempt_started(int attempt);
  void worker_started(const WorkerStarted& event);
  // `place` says where its error file is, which is read if it failed.
  void worker_ended(const WorkerEnded& event, const RunPlace& place);
  void core_dumped(LocalRank worker) { at(worker).core_dumped = true; }
  void leaked_processes_killed(int attempt, KilledProcesses leaked);

  // What the other nodes are told when this one ends the attempt.
  NodesVerdict verdict_so_far(const RunEnd& run_end);

  // The run is over.  Copies the culprit's error file for a launcher around this one.
  void begin_finish(const RunEnd& run_end, const RunPlace& place);
  // The last event, and the summary.
  void finish(std::vector<std::string> refusals);

  void print_workers(int attempt, const std::vector<WorkerRow>& rows);

  const RunEnd& run_end() const { return report_.run_end; }

 private:
  WorkerReport& at(LocalRank worker) {
    return report_.workers[static_cast<std::size_t>(worker.value())];
  }
  void take_output(LocalRank worker);
  void look_for_memory(const RunEnd& run_end);

  const LaunchPlan& plan_;
  const LaunchContext& context_;
  RunOutput& output_;
  OomKills oom_kills_ = OomKills::read();  // Before the run.
  RunReport report_;
};

}  // namespace distrun
