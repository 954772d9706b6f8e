// The lines that distrun prints on stderr during a run.
//
//     distrun: rank 1 failed: exit code 3; restarting (1 of 2)
//
// Pure.
#pragma once

#include <string>

#include "launcher/outcome/run_event.h"
#include "launcher/plan/plan.h"

namespace distrun {

// A whole line, or an empty string.
std::string event_line(const LaunchPlan& plan, const RunEvent& event);

}  // namespace distrun
