// RunRecord collects the data of a run for the page of `distrun launch --html FILE`: a lane for
// each rank, CPU time and memory, output and restarts.
//
//     RunRecord record(plan, "node7");
//     record.happened(WorkerStarted{…}, now);
//     record.loaded({{.worker = LocalRank(0), …}}, now);
//     record.wrote({.attempt = 0, .worker = LocalRank(0), .text = "…"});
//     record.html("distrun: rank 1 failed: exit code 3\n…")
//
// Memory is bounded, however long the run is: beyond kEventsMax events, whole attempts except the
// first and the last are dropped; samples of load are thinned out; and only the last kAttemptsMax
// attempts keep their output.
//
// The page holds this JSON:
//
//     {"run": {"succeeded": false, "headline": "rank 1 failed: exit code 3", "summary": "…",
//              "host": "node7", "node_rank": 0, "nodes": 1, "workers": 4, "restarts": 2,
//              "events_left_out": 0,
//              "command": "python3 -u train.py", "run_id": "…"},
//      "events": [{"time": "2026-03-01T12:00:00.250Z", "event": "run_started", …}, …],
//      "samples": [{"time": "…", "workers": [[RANK, CPU_SECONDS, MEMORY_BYTES], …]}, …],
//      "output": [{"attempt": 2, "rank": 1, "text": "…"}, …]}
//
// docs/events.md describes the events.  Pure.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "launcher/outcome/run_event.h"
#include "launcher/outcome/worker_facts.h"
#include "launcher/plan/plan.h"

namespace distrun {

class RunRecord {
 public:
  using Time = std::chrono::system_clock::time_point;
  static constexpr std::size_t kEventsMax = 10'000, kSamplesMax = 1000;
  static constexpr int kAttemptsMax = 3;

  // `plan` must outlive it; with several nodes, its ranks change until the first worker starts.
  RunRecord(const LaunchPlan& plan, std::string host) : plan_(plan), host_(std::move(host)) {}

  void happened(const RunEvent& event, Time now);
  void loaded(const std::vector<WorkerLoad>& loads, Time now);
  void wrote(const WorkerText& output);

  // The page. `summary` is what distrun printed at the end; empty after a success.
  std::string html(const std::string& summary) const;

 private:
  const LaunchPlan& plan_;
  const std::string host_;
  struct Event {
    int attempt = 0;  // When it happened.
    std::string json;
  };
  void forget_some_events();

  std::deque<Event> events_;
  int attempt_ = 0, restarts_ = 0;
  std::size_t events_left_out_ = 0;                      // Within kept attempts.
  std::vector<std::string> samples_;                     // As JSON.
  std::size_t sample_stride_ = 1, samples_to_skip_ = 0;  // One sample of `sample_stride_` is kept.
  std::deque<WorkerText> output_;
  std::string headline_ = "The run did not start";
  bool has_succeeded_ = false;
};

}  // namespace distrun
