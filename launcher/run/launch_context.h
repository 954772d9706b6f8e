// LaunchContext has the inputs and callbacks that the process of a launcher gives to run_launch().
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/operations/operation.h"
#include "common/rank.h"
#include "evidence/operations/collective_table.h"
#include "evidence/operations/recorded_digests.h"
#include "launcher/outcome/run_event.h"
#include "launcher/outcome/run_report.h"
#include "launcher/outcome/worker_facts.h"
#include "launcher/plan/log_choice.h"
#include "launcher/process/guard.h"
#include "launcher/report/run_snapshot.h"

namespace distrun {

struct LaunchContext {
  int out = 1, err = 2;  // For the workers' lines.
  int in = 0;            // Read by local rank 0; -1: none.
  GuardLifeline lifeline;
  std::string host;  // This machine's name in messages.

  // Return distrun's own messages: whole lines, or empty. They go to `err` among the workers'
  // lines, so a slow reader delays both. Each function may be empty.
  std::function<std::string(const RunEvent& event)> on_event;
  std::function<std::string(const RunReport& report)> summary;  // Written last.

  // For a report or a trace: `on_load` is called once a second while workers run, `on_output` for
  // each worker at the end of an attempt. Both run on the run's thread, and may be empty.
  std::function<void(const std::vector<WorkerLoad>& loads)> on_load;
  std::function<void(const WorkerText& output)> on_output;

  // For a recording: all that goes to `out` and `err`, as RunOutput::Consoles::copy says.
  std::function<void(Stream stream, std::string_view bytes)> on_printed;

  // For --save-digests: each collective that all its ranks have ended; not called on other nodes
  // than node 0. May be empty.
  std::function<void(const CollectiveOfRanks& all)> on_collective;
  // For --compare-digests: the run to compare this one with, or null. Must outlive run_launch().
  const RecordedDigests* recorded = nullptr;

  // For a trace: what workers record of their collectives, sends and receives. As
  // OperationWatch::Handlers says.
  std::function<void(LocalRank worker, const Operation& operation)> on_operation;
  std::function<void(LocalRank worker, std::uint64_t missed)> on_missed;

  // Returns the text of --metrics-port, and is required with that flag.
  std::function<std::string(const RunSnapshot& snapshot)> metrics;
};

}  // namespace distrun
