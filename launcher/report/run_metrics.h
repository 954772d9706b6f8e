// RunMetrics is the state of a run in the text format of Prometheus, for --metrics-port.
//
//     RunMetrics metrics(plan, "node7");
//     metrics.happened(WorkerStarted{…}, now);
//     metrics.text(snapshot)
//
//     # HELP distrun_worker_cpu_seconds_total CPU time of the worker's own process in this attempt.
//     # TYPE distrun_worker_cpu_seconds_total counter
//     distrun_worker_cpu_seconds_total{rank="3"} 31.2
//
// docs/metrics.md lists the metrics.  Pure.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/outcome/run_event.h"
#include "launcher/plan/plan.h"
#include "launcher/report/run_snapshot.h"

namespace distrun {

class RunMetrics {
 public:
  using Time = std::chrono::system_clock::time_point;

  // `plan` must outlive it; with several nodes, its ranks change until the first worker starts.
  RunMetrics(const LaunchPlan& plan, std::string host) : plan_(plan), host_(std::move(host)) {}

  void happened(const RunEvent& event, Time now);

  std::string text(const RunSnapshot& snapshot) const;

 private:
  struct Worker {
    std::optional<Time> started;
    bool is_up = false, is_straggler = false, has_other_values = false;
  };

  // null: a rank of another node.
  Worker* of_rank(int rank);

  const LaunchPlan& plan_;
  const std::string host_;
  std::vector<Worker> workers_;  // By local rank; empty before the first attempt.
};

}  // namespace distrun
