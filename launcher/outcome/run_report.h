// RunReport collects the facts about a run for its summary. The driver fills it in.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include <sys/types.h>

#include "evidence/operations/straggler_watch.h"
#include "launcher/outcome/run_end.h"
#include "launcher/process/leaked_processes.h"

namespace distrun {

struct WorkerReport {
  pid_t pid = -1;  // -1: never started.
  std::chrono::milliseconds run_time{0};
  std::string last_output;  // Its last lines on stderr, or on stdout if stderr is empty.
  std::string log_folder;   // The folder of its log files; empty if none.
  std::string error;        // The message in its error file; may be empty.
  std::string callstack;    // The call stack in its error file; may be empty.
  bool core_dumped = false;
};

struct RunReport {
  RunEnd run_end;
  KilledProcesses leaked_processes;   // Leaked by the last attempt.
  std::vector<WorkerReport> workers;  // By local rank.
  std::vector<std::string> refusals;  // Why the store refused clients: the last few, latest first.
  // When the last attempt was stopped; may be empty.
  std::string collectives;            // Which ranks waited in one, and which were missing.
  std::string nccl;                   // What RAS of NCCL said.
  std::string where;                  // Where the workers were.
  std::vector<Straggler> stragglers;  // Of the last attempt.
  std::string out_of_memory;          // If a worker got SIGKILL: whether memory ran out.
  std::string error_not_copied;       // Why TORCHELASTIC_ERROR_FILE could not be written.
};

}  // namespace distrun
