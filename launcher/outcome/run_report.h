// RunReport is all that is known of a run when it ends: the driver fills it in, the summary prints
// it.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include <sys/types.h>

#include "launcher/outcome/run_end.h"
#include "launcher/process/leaked_processes.h"

namespace distrun {

struct WorkerReport {
  pid_t pid = -1;  // -1 where it was never started.
  std::chrono::milliseconds run_time{0};
  std::string last_output;  // The last lines it wrote to stderr, or, where none, to stdout.
  std::string log_folder;   // Where its stdout.log or stderr.log is; empty where there is none.
  std::string error;        // Of its error file: what it said went wrong; empty where nothing.
  std::string callstack;    // Of its error file, likewise: where that was.
  bool core_dumped = false;
};

struct RunReport {
  RunEnd run_end;
  KilledProcesses leaked_processes;   // That the last attempt has leaked.
  std::vector<WorkerReport> workers;  // By local rank.
  std::vector<std::string>
      refusals;                  // Why the store has refused clients: the last few, latest first.
  std::string out_of_memory;     // Of whether memory ran out, where a worker got SIGKILL.
  std::string error_not_copied;  // Why the launcher's own error file could not be written.
};

}  // namespace distrun
