// RunTrace turns what happens in a run into the trace events of `distrun launch --trace FILE`.
//
//     RunTrace trace(plan, "node7", [&](std::string_view events) { file.add(events); });
//     file.begin(trace.head(now));
//     trace.happened(WorkerStarted{…}, now);
//     trace.operated(LocalRank(0), operation);
//     trace.loaded({{.worker = LocalRank(0), …}}, now);
//
// Each rank is a process to the viewers, with these rows: the lives of its workers; one per group,
// for the collectives; and one for sends and receives. Operations that overlap get further rows.
// One more process has the attempts and the events of the run.
//
// Memory is bounded, however long the run is: operations are written when they end, or as
// unfinished when the attempt ends.  Pure, apart from the calls of `write`.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/operations/operation.h"
#include "common/text/trace_event.h"
#include "launcher/outcome/run_event.h"
#include "launcher/outcome/worker_facts.h"
#include "launcher/plan/plan.h"

namespace distrun {

class RunTrace {
 public:
  using Write = std::function<void(std::string_view events)>;
  static constexpr std::size_t kGroupsMax = 64;  // Of a rank; later ones share their rows.

  // `plan` must outlive it; with several nodes, its ranks change until the first worker starts.
  RunTrace(const LaunchPlan& plan, std::string host, Write write);

  // The beginning of the file.
  std::string head(TraceTime now) const;

  void happened(const RunEvent& event, TraceTime now);

  // As OperationWatch::Handlers says.
  void operated(LocalRank worker, const Operation& operation);
  void missed(LocalRank worker, std::uint64_t operations, TraceTime now);

  void loaded(const std::vector<WorkerLoad>& loads, TraceTime now);

 private:
  struct Rows {
    std::string name;
    int place = 0;
    TraceLanes lanes;
    std::vector<TraceRow> rows;  // By lane.
  };
  struct Open {  // An operation in progress.
    Operation operation;
    Rows* rows = nullptr;
    std::size_t lane = 0;
  };
  struct Worker {
    bool is_named = false;
    std::map<std::string, Rows> rows;  // By name.
    int rows_made = 0;
    std::map<std::uint64_t, Open> open;  // By number.
    std::optional<TraceTime> ended;
    std::optional<std::pair<TraceTime, std::chrono::milliseconds>> cpu_before;
  };

  Worker& at(LocalRank worker) { return workers_[static_cast<std::size_t>(worker.value())]; }
  int process_of(LocalRank worker) const;
  Rows& rows_for(LocalRank worker, const Operation& operation);
  TraceRow row(LocalRank worker, Rows& rows, std::size_t lane);
  void write_operation(TraceRow row, const Operation& operation,
                       std::optional<TraceTime> worker_ended);

  void started(const WorkerStarted& event, TraceTime now);
  void ended(const WorkerEnded& event, TraceTime now);
  void end_attempt(TraceTime now);
  void mark(const RunEvent& event, TraceTime now);

  const LaunchPlan& plan_;
  const std::string host_;
  const Write write_;
  TraceRow run_row_;  // Of the run's own process.
  bool is_in_attempt_ = false;
  std::vector<Worker> workers_;  // By local rank.
};

}  // namespace distrun
