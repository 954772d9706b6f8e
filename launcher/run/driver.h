// run_launch carries out a plan: hosts the store, starts the workers, passes their output on,
// watches them, and does what the supervisor decides, until nothing of the run is left.
//
//     auto files = RunFiles::make(plan);
//     const auto run_end = run_launch(plan, *files, {          // in the launcher: guard.h
//         .lifeline = lifeline,
//         .summary = [&](const RunReport& report) { return failure_summary(plan, report, …); }});
//     if (!run_end) return run_end.error();                    // nothing has been started
//     return exit_status(*run_end);
//
// The only file that knows the kernel, the supervisor and the store at once; it
// turns exits (by pidfd), ends of pipes, signals and the clock into the
// supervisor's events, and its actions into system calls.
//
// One thread, that of the caller: workers get SIGKILL when it ends, however that
// comes about.  While it runs, LaunchOptions::end_signals end the run, its forward_signals
// go to the workers, SIGTSTP stops the run until this process is continued, SIGUSR1, unless it is
// one of these, prints where each worker stands (worker_table.h), and SIGPIPE is ignored.  Call it
// once a process, in one that has no children of its own.
#pragma once

#include <functional>
#include <string>

#include "distrun/result.h"
#include "launcher/outcome/run_end.h"
#include "launcher/outcome/run_event.h"
#include "launcher/outcome/run_report.h"
#include "launcher/plan/plan.h"
#include "launcher/process/guard.h"
#include "launcher/run/run_files.h"

namespace distrun {

struct LaunchContext {
  int out = 1, err = 2;  // Where the workers' lines go.
  int in = 0;            // What local rank 0 reads; -1: nothing.
  GuardLifeline lifeline;
  std::string host;  // This machine's name, for people.

  // What distrun itself has to say: whole lines, or nothing.  They go to `err` among the workers'
  // lines, so who does not read them holds up no more than those.  Each may be empty.
  std::function<std::string(const RunEvent& event)> on_event;
  std::function<std::string(const RunReport& report)> summary;  // The last that is written.
};

// Fails where the store cannot listen, node 0 is not to be reached or a resource is missing, before
// a worker is started.  Of several nodes, the plan gets its ranks once all are there.
Result<RunEnd> run_launch(LaunchPlan& plan, RunFiles& files, const LaunchContext& context);

}  // namespace distrun
