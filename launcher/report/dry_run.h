// What `distrun launch --dry-run` shows: each worker's command and the variables that distrun sets
// or removes for it, one in a line, in a form that a shell takes.
//
//     # rank 0 of 2
//     env -u DISTRUN_INIT_METHOD … LOCAL_RANK=0 … /usr/bin/python3 -u train.py --lr 0.1
//
// What is known only once a run has begun stands in parentheses: a free port, the folder of the
// error files, the ranks of a node among several, which depend on the others' workers.  Pure.
#pragma once

#include <string>

#include "launcher/plan/plan.h"

namespace distrun {

std::string dry_run_text(const LaunchPlan& plan);

}  // namespace distrun
