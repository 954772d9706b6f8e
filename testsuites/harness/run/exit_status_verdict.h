// The verdict of a rank whose program does not report results (session/tested_program.h): exit
// status 0 passes, a status of PyTorch's TEST_SKIPS skips, and any other end fails.
//
//     const RankFacts facts = judged_by_exit_status(process.facts());
//
// Pure.
#pragma once

#include "testsuites/harness/run/verdict.h"

namespace distrun {

// Adds what a rank of a test program would have reported.
RankFacts judged_by_exit_status(RankFacts facts);

}  // namespace distrun
