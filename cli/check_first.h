// `distrun launch --check`: runs `distrun check` before the launch, with the flags that say where
// the run is.
//
//     const auto status = check_first(line, environment, options);
//     if (!status) return fail(status.error());
//     if (*status != 0) return *status;          // Node 0 has printed the problems.
#pragma once

#include <vector>

#include "cli/command_line.h"
#include "cli/launch_flags.h"
#include "common/os/environment.h"
#include "distrun/result.h"
#include "launcher/plan/options.h"

namespace distrun {

// All flags of distrun check: those flags of distrun launch that say where the run is, and --help.
std::vector<LaunchFlag> flags_of_check();

// `line` has the user's flags; the check reads the place of this process from its engine again.
// Signals that end a run end the check. Returns its exit status. Blocks until the check has ended.
// Fails if it cannot be started.
Result<int> check_first(const CommandLine& line, const Environment& environment,
                        const LaunchOptions& options);

}  // namespace distrun
