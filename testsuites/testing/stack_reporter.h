// StackReporter says where a rank stands when the runner asks, because the rank hangs: what its
// main thread is doing, and which collective it waits in.
//
//     StackReporter reporter(channel);       // in the main thread, before the test
//
// The question is the signal where_signal(), which a thread of its own takes; that one has the main
// thread look at its own stack.  A rank that is stopped cannot answer.
#pragma once

#include <string>

#include <pthread.h>

#include "testsuites/testing/result_channel.h"

namespace distrun {

class StackReporter {
 public:
  // From here on the signal is blocked in every thread that is started.  `channel` must live for as
  // long as the process.
  explicit StackReporter(ResultChannel& channel);
};

// The same of a thread of this process: the collectives under way, then the stack, in lines.  Needs
// a StackReporter, and another thread than that one.
std::string place_of(pthread_t thread);

}  // namespace distrun
