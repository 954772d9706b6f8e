// failure_summary is printed last after a failed run: which worker failed first, how, and what
// happened to the others.
//
//     distrun: rank 1 failed: signal SIGSEGV (11), core dumped
//       local rank 1 on node7, pid 4711, after 3.2 s, attempt 2 of 4
//       error: SIGSEGV: no memory at 0x8
//         #0 train(Config const&)+0x1c (/home/me/worker+0x12ab)
//       last lines:
//         epoch 3 loss 0.0312
//       log: logs/none_x3a/attempt_1/1
//       command: ./worker --lr 0.1
//       also failed: rank 3: exit code 1
//         last lines:
//           connection closed by peer
//       distrun then stopped ranks 0, 2 (signal SIGTERM (15))
//       the store refused a client: set with a value of 9000000 bytes: at most 8388608 are allowed
//
// "also failed" lists workers that the launcher did not stop: four with their last lines, the rest
// by number. A single worker without a log has no last lines, as its output is right above.
//
// Pure.
#pragma once

#include <string>

#include "launcher/outcome/run_report.h"
#include "launcher/plan/plan.h"

namespace distrun {

// kBelowOutput: on a terminal, right below the workers' output. An error that is visible there,
// such as a traceback, then takes one line.
enum class SummaryPlace { kElsewhere, kBelowOutput, kOtherNode };

// Empty if the run succeeded and leaked nothing. `host` is this node's name.
std::string failure_summary(const LaunchPlan& plan, const RunReport& report,
                            const std::string& host, SummaryPlace place = SummaryPlace::kElsewhere);

// The same of a run that failed, for a reader who sees neither the workers' output nor other nodes.
// Empty if the run succeeded.
std::string failure_account(const LaunchPlan& plan, const RunReport& report,
                            const std::string& host);

// False if another node prints how the run has ended: an engine shows all nodes on one console, so
// node 0 speaks for all, or node 1 if node 0 is lost.
bool tells_end(const LaunchPlan& plan, const RunEnd& run_end);

// One line: "rank 1 failed: exit code 3".
std::string headline(const LaunchPlan& plan, const RunEnd& run_end);

// What this node sends to the others when it ends the run; `report` may be incomplete.
NodesVerdict verdict_of(const LaunchPlan& plan, const RunReport& report, const std::string& host);

}  // namespace distrun
