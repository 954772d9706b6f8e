// RunSnapshot is the state of a run at one moment; `distrun top` shows two of them.
//
//     const std::string text = snapshot_json(now);            // in the run
//     const auto snapshot = parse_snapshot(text);             // in distrun top
//     top_table(*snapshot, &before, 40)
//
//     4 workers: python3 -u train.py
//     rank   pid    time   CPU     memory      output  processes  state
//        0  4711  31.2 s  101%  812.0 MiB  12.5 KiB/s          1  running
//
// CPU time and memory are the worker process's own.  Pure.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "distrun/result.h"
#include "launcher/report/worker_table.h"

namespace distrun {

struct WorkerSnapshot {
  int rank = 0;
  pid_t pid = -1;  // -1: not started.
  std::string state;
  std::chrono::milliseconds run_time{0};
  // Empty when it has ended, like `memory_bytes`.
  std::optional<std::chrono::milliseconds> cpu_time;
  std::optional<std::uint64_t> memory_bytes;
  int processes = 0;  // In its session.
  std::uint64_t output_bytes = 0;
  std::string collective;  // "in all_reduce 31", "after all_reduce 31"; empty if unknown.
  // For RunMetrics only, not in the JSON; 0 if unknown.
  std::uint64_t operations = 0;       // That the worker has started.
  std::uint32_t last_collective = 0;  // Its number in its group.
};

struct RunSnapshot {
  std::string about;  // "4 workers: python3 -u train.py"
  int attempt = 0;
  std::chrono::milliseconds at{0};  // Steady clock of the machine.
  std::vector<WorkerSnapshot> workers;
};

// `output_bytes` are by local rank, like the rows.
std::vector<WorkerSnapshot> snapshots_of(const std::vector<WorkerRow>& rows,
                                         const std::vector<std::uint64_t>& output_bytes);

// Returns one line.
std::string snapshot_json(const RunSnapshot& snapshot);

// Fails with kProtocol.
Result<RunSnapshot> parse_snapshot(std::string_view json);

// Rates are relative to `before`. null: unknown, such as for a worker that had not started. Shows
// at most `workers_max` workers, and the number of omitted ones.
std::string top_table(const RunSnapshot& now, const RunSnapshot* before, std::size_t workers_max);

}  // namespace distrun
