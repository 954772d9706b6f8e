// StackReporter answers when the runner asks where a hanging rank is: it reports the main thread's
// stack and current collective.
//
//     StackReporter reporter(channel);       // in the main thread, before the test
//
// A dedicated thread takes where_signal() from the runner, and makes the main thread capture its
// stack and then stop, so that the rank does not continue. A stopped rank cannot answer. On
// collective_signal(), the thread reports the current collective, and the rank continues.
#pragma once

#include <string>

#include <pthread.h>

#include "testsuites/testing/result_channel.h"

namespace distrun {

class StackReporter {
 public:
  // Blocks the signals in every thread started later. `channel` must outlive the process's threads.
  explicit StackReporter(ResultChannel& channel);
};

// Running collectives and the stack of a thread, which does not continue. REQUIRES: a StackReporter
// exists, and `thread` is not the caller.
PlaceTold place_of(pthread_t thread);

// The innermost function of another thread that is not the C library's; empty if it is unknown.
// The thread does not continue. REQUIRES: a StackReporter exists.
std::string function_of(pid_t thread);

}  // namespace distrun
