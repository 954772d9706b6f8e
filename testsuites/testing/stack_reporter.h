// StackReporter answers when the runner asks a hanging rank where it stands: the main thread's
// stack and the collective it waits in.
//
//     StackReporter reporter(channel);       // in the main thread, before the test
//
// The runner sends where_signal(), which a dedicated thread takes; it makes the main thread capture
// its own stack and then stop, so that the rank stays where it stands.  A stopped rank cannot
// answer.
#pragma once

#include <string>

#include <pthread.h>

#include "testsuites/testing/result_channel.h"

namespace distrun {

class StackReporter {
 public:
  // Blocks the signal in every thread started later.  `channel` must outlive the process's threads.
  explicit StackReporter(ResultChannel& channel);
};

// The running collectives and the stack of a thread, which does not go on.  REQUIRES: a
// StackReporter exists, and `thread` is not the caller.
PlaceTold place_of(pthread_t thread);

}  // namespace distrun
