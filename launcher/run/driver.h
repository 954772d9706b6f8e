// run_launch carries out a plan: it hosts the store, runs the workers, passes on their output, and
// performs the supervisor's decisions, until no process of the run is left.
//
//     auto files = RunFiles::make(plan);
//     const auto run_end = run_launch(plan, *files, {          // in the launcher: guard.h
//         .lifeline = lifeline,
//         .summary = [&](const RunReport& report) { return failure_summary(plan, report, …); }});
//     if (!run_end) return run_end.error();                    // no worker was started
//     return exit_status(*run_end);
//
// The driver turns what happens into events of the supervisor (supervisor_loop.h), and its actions
// into calls of worker_pool.h, store_host.h, run_output.h, output_drain.h, node_link.h and
// run_reporter.h.
//
// Thread safety: runs on the caller's thread; workers get SIGKILL when that thread ends. Signals:
// end_signals end the run, forward_signals go to the workers, SIGTSTP suspends the run until this
// process is continued, and SIGUSR1, unless it is one of these, prints the worker table. Call it
// once, in a process without other children.
#pragma once

#include "distrun/result.h"
#include "launcher/outcome/run_end.h"
#include "launcher/plan/plan.h"
#include "launcher/run/launch_context.h"
#include "launcher/run/run_files.h"

namespace distrun {

// Fails, before a worker starts, if the store cannot listen, node 0 cannot be reached or a resource
// is missing. With several nodes, sets the plan's ranks when all nodes have joined.
Result<RunEnd> run_launch(LaunchPlan& plan, RunFiles& files, const LaunchContext& context);

}  // namespace distrun
