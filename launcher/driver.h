// run_launch carries out a plan: hosts the store, or makes the file that is one, starts the
// workers, passes their output on, watches them, and does what the supervisor decides, until no
// worker is left.
//
//     auto report = run_launch(plan, {});
//     if (!report) return report.error();             // nothing has been started
//     std::cerr << failure_summary(plan, *report);
//     return exit_status(report->run_end);
//
// The only file that knows the kernel, the supervisor and the store at once; it
// turns exits (by pidfd), ends of pipes, signals and the clock into the
// supervisor's events, and its actions into system calls.
//
// One thread, that of the caller: workers get SIGKILL when it ends, however that
// comes about.  While it runs, SIGINT, SIGTERM, SIGHUP and SIGQUIT end the run, and
// SIGPIPE is ignored.  Call it once a process.
#pragma once

#include <chrono>
#include <vector>

#include <sys/types.h>

#include "common/result.h"
#include "launcher/plan.h"
#include "launcher/run_end.h"

namespace distrun {

// Where the workers' lines go; rank 0 reads from `in` where that is no terminal.
struct LaunchStreams {
  int in = 0, out = 1, err = 2;
};

struct WorkerReport {
  pid_t pid = -1;  // -1 where it was never started.
  std::chrono::milliseconds run_time{0};
  std::string last_output;  // The last lines it wrote to stderr, or, where none, to stdout.
  std::string log_folder;   // Where its stdout.log or stderr.log is; empty where there is none.
  std::string error;        // Of its error file: what it said went wrong; empty where nothing.
};

struct RunReport {
  RunEnd run_end;
  std::vector<WorkerReport> workers;  // By local rank.
  bool line_open = false;             // The last line that workers wrote to stderr has no end.
  std::vector<std::string>
      refusals;  // Why the store has refused clients: the last few, latest first.
};

// Fails where the store cannot listen, its file is not fresh or cannot be made, or a resource is
// missing, before a worker is started.
Result<RunReport> run_launch(const LaunchPlan& plan, const LaunchStreams& streams);

}  // namespace distrun
