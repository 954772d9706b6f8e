// worker_table is what distrun prints on SIGUSR1: the state of each worker of this node.
//
//     rank     pid      time       CPU     memory  processes  state
//        0    4711    31.2 s    30.1 s  812.0 MiB          1  running
//        1    4712    31.2 s     0.9 s  790.4 MiB          1  STOPPED
//        2    4713    31.2 s         -          -          -  exit code 0; ITS OUTPUT IS STILL OPEN
//        3       -         -         -          -          -  not started yet
//
// States that need attention are in capitals.  CPU time and memory are the worker process's own;
// processes counts its session.  Pure.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "common/os/process_stat.h"
#include "common/rank.h"
#include "distrun/process_end.h"

namespace distrun {

struct WorkerRow {
  Rank rank;
  pid_t pid = -1;                         // -1: not started.
  std::chrono::milliseconds run_time{0};  // Until now, or until its end.
  std::optional<ProcessEnd> end;          // nullopt: still running.
  bool output_open = false;               // It ended, but a process holds its output open.
  std::optional<ProcessStat> stat;        // While it runs; nullopt if it is just ending.
  int processes = 0;                      // In its session.
};

// "running", "STOPPED", "exit code 0; ITS OUTPUT IS STILL OPEN"
std::string state_text(const WorkerRow& row);

// Lines of equally many cells, with newlines; all but the last column are right-aligned.
std::string aligned_columns(const std::vector<std::vector<std::string>>& lines);

// A header line and one line per row, with newlines.
std::string worker_table(const std::vector<WorkerRow>& rows);

}  // namespace distrun
