// failure_summary is the last thing distrun prints of a run that did not succeed:
// who is to blame, how it ended, and what became of the others.
//
//     distrun: rank 1 failed: signal SIGSEGV (11)
//       local rank 1 on node7, pid 4711, after 3.2 s
//       command: ./worker --lr 0.1
//       ended in consequence: ranks 0, 2, 3 (signal SIGTERM (15))
//       the store refused a client: set with a value of 9000000 bytes: at most 8388608 are allowed
//
// Pure.
#pragma once

#include <string>

#include "launcher/driver.h"
#include "launcher/plan.h"

namespace distrun {

// Empty where the run succeeded and left nothing to say.  `host` is this node's name.
std::string failure_summary(const LaunchPlan& plan, const RunReport& report,
                            const std::string& host);

// What ended the run, in one line: "rank 1 failed: exit code 3".
std::string headline(const LaunchPlan& plan, const RunEnd& run_end);

}  // namespace distrun
