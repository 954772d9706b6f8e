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
// The driver only connects: it turns what happens into the supervisor's events (supervisor_loop.h),
// and has the supervisor's actions done by the worker pool (worker_pool.h), the store host
// (store_host.h), the output (run_output.h, output_drain.h), the link to other nodes (node_link.h)
// and the reporter (run_reporter.h).
//
// One thread, that of the caller: workers get SIGKILL when it ends, however that
// comes about.  While it runs, LaunchOptions::end_signals end the run, its forward_signals
// go to the workers, SIGTSTP stops the run until this process is continued, SIGUSR1, unless it is
// one of these, prints where each worker stands (worker_table.h), and SIGPIPE is ignored.  Call it
// once a process, in one that has no children of its own.
#pragma once

#include "distrun/result.h"
#include "launcher/outcome/run_end.h"
#include "launcher/plan/plan.h"
#include "launcher/run/launch_context.h"
#include "launcher/run/run_files.h"

namespace distrun {

// Fails where the store cannot listen, node 0 is not to be reached or a resource is missing, before
// a worker is started.  Of several nodes, the plan gets its ranks once all are there.
Result<RunEnd> run_launch(LaunchPlan& plan, RunFiles& files, const LaunchContext& context);

}  // namespace distrun
