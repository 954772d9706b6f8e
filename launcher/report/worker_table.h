// worker_table shows the state of each worker of this node; distrun prints it on SIGUSR1.
//
//     rank     pid      time       CPU     memory  processes  state
//        0    4711    31.2 s    30.1 s  812.0 MiB          1  running
//        1    4712    31.2 s     0.9 s  790.4 MiB          1  STOPPED
//        2    4713    31.2 s         -          -          -  exit code 0; ITS OUTPUT IS STILL OPEN
//        3       -         -         -          -          -  not started yet
//
// States that need attention are in capitals.  CPU time and memory are the worker process's own;
// processes are those of its session.  Pure.
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
  // It has ended, but another process holds its output open.
  bool output_open = false;
  std::optional<ProcessStat> stat;  // nullopt if it is ending or has ended.
  int processes = 0;                // In its session.
  bool is_straggler = false;        // It comes late to collectives.
};

// "running", "running; DELAYS THE OTHERS", "STOPPED", "exit code 0; ITS OUTPUT IS STILL OPEN"
std::string state_text(const WorkerRow& row);

// Lines must have equally many cells; all columns but the last are right-aligned.
std::string aligned_columns(const std::vector<std::vector<std::string>>& lines);

// A header and a line per row, with newlines.
std::string worker_table(const std::vector<WorkerRow>& rows);

}  // namespace distrun
