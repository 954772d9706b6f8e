// What `distrun launch --dry-run` prints: each worker's command and the variables that distrun sets
// or removes, as shell commands. The comment before each names its CPUs under --numa-binding.
//
//     # rank 0 of 2
//     env -u DISTRUN_INIT_METHOD … LOCAL_RANK=0 … /usr/bin/python3 -u train.py --lr 0.1
//
// Values known only during a run are in parentheses: a free port, the error folder, ranks on
// several nodes.  Pure.
#pragma once

#include <string>

#include "launcher/plan/plan.h"

namespace distrun {

std::string dry_run_text(const LaunchPlan& plan);

}  // namespace distrun
