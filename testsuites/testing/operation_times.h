// When this process's collectives, sends and receives started and completed.
//
//     record_operation_times();                    // before the first group exists
//     …
//     OperationTimes times = operation_times();    // the last kOperationsKept of them
//
// c10d's work objects report themselves as RecordFunctions. Unlike its flight recorder, these have
// ends, and include sends and receives. Gloo starts an operation, which is then listed, when one of
// its threads takes it. A backend's operations are listed if their titles are like
// "gloo:all_reduce".
//
// Thread safety: any thread. Not in signal handlers, nor while a thread is stopped that may start
// operations: it may hold the lock.
#pragma once

#include <cstddef>

#include "testsuites/harness/protocol/test_facts.h"

namespace distrun {

inline constexpr std::size_t kOperationsKept = 200;

// Further calls do nothing.
void record_operation_times();

OperationTimes operation_times();

}  // namespace distrun
