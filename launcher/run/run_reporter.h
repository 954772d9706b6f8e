// RunReporter passes events of a run to the listener, fills in the RunReport, and prints the worker
// table and the summary.
//
//     RunReporter reporter(plan, context, output);
//     reporter.tell(WorkerStarted{0, LocalRank(1), 4711});
//     reporter.begin_finish(run_end, place);
//     reporter.finish();
//
// Thread safety: the thread of the run only.
#pragma once

#include <string>
#include <vector>

#include "common/rank.h"
#include "evidence/stacks/symbol_names.h"
#include "launcher/nodes/nodes.h"
#include "launcher/outcome/run_event.h"
#include "launcher/outcome/run_report.h"
#include "launcher/plan/plan.h"
#include "launcher/plan/worker_environment.h"
#include "launcher/process/oom_kills.h"
#include "launcher/report/worker_table.h"
#include "launcher/run/launch_context.h"
#include "launcher/run/run_output.h"
#include "launcher/run/supervisor.h"

namespace distrun {

class RunReporter {
 public:
  // The arguments must outlive it.
  RunReporter(const LaunchPlan& plan, const LaunchContext& context, RunOutput& output);

  // Passes `event` to the listener, and prints the text that it returns.
  void tell(const RunEvent& event);

  // Forgets the workers of the previous attempt.
  void attempt_started(int attempt);
  void worker_started(const WorkerStarted& event);
  // If the worker failed, reads its error file, which `place` names.
  void worker_ended(const WorkerEnded& event, const RunPlace& place);
  void core_dumped(LocalRank worker) { at(worker).core_dumped = true; }
  void still_running(int attempt, const TellStillRunning& still);
  // Where the workers are when the attempt is stopped; the summary tells it.
  void stops_at(const StacksRead& event);
  // `on_gpus`: as in StacksRead, of all nodes. No worker is left.
  void nodes_compared(int attempt, std::string on_gpus);
  // How ranks disagreed about a collective, which may be the reason for a failure; may be empty.
  void ranks_disagreed(const std::string& text);
  void leaked_processes_killed(int attempt, KilledProcesses leaked);

  // The verdict to send to other nodes when this one ends the attempt.
  NodesVerdict verdict_so_far(const RunEnd& run_end);

  // Requires that the run has ended. Copies the error file of the first failure for an outer
  // launcher.
  void begin_finish(const RunEnd& run_end, const RunPlace& place);
  // Reports the last event, and prints the summary.
  void finish(std::vector<std::string> refusals);

  void print_map_of_one_node();
  void print_map(const std::vector<RanksOfNode>& nodes);
  void print_workers(int attempt, const std::vector<WorkerRow>& rows);
  // Marks the ranks that delay the others.
  void mark_stragglers(std::vector<WorkerRow>& rows) const;

  // "4 workers: python3 -u train.py".
  std::string about() const;

  const RunEnd& run_end() const { return report_.run_end; }

 private:
  WorkerReport& at(LocalRank worker) {
    return report_.workers[static_cast<std::size_t>(worker.value())];
  }
  std::string with_names(const std::string& backtrace);
  void take_output(LocalRank worker);
  void look_for_memory(const RunEnd& run_end);

  const LaunchPlan& plan_;
  const LaunchContext& context_;
  RunOutput& output_;
  SymbolNames names_;
  OomKills oom_kills_ = OomKills::read();  // Before the run.
  RunReport report_;
  std::string recorded_;  // As in StacksRead, when the attempt was stopped.
};

}  // namespace distrun
