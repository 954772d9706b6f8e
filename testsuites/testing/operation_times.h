// When this process's collectives, sends and receives began and completed.
//
//     record_operation_times();                    // before the first group exists
//     …
//     OperationTimes times = operation_times();    // the last kOperationsKept of them
//
// c10d's work objects report themselves as RecordFunctions; unlike its flight recorder they know
// the end, and include sends and receives.  Gloo begins an operation when one of its threads takes
// it; until then the operation is not listed.  Operations of a backend that gives its works no
// title
// ("gloo:all_reduce") are not listed either.
//
// Thread safety: any thread.  Not in a signal handler, and not while a thread is stopped that may
// start an operation: it may hold the lock.
#pragma once

#include <cstddef>

#include "testsuites/harness/protocol/test_facts.h"

namespace distrun {

inline constexpr std::size_t kOperationsKept = 200;

// Further calls do nothing.
void record_operation_times();

OperationTimes operation_times();

}  // namespace distrun
