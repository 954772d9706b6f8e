// PlaceTeller says where a rank stands when the runner asks, because the rank hangs: what its main
// thread is doing, and which collective it waits in.
//
//     PlaceTeller teller(channel);       // in the main thread, before the test
//
// The question is the signal where_signal(), which a thread of its own takes; that one has the main
// thread look at its own stack.  A rank that is stopped cannot answer.
#pragma once

#include <csignal>
#include <thread>

#include "testsuites/testing/result_channel.h"

namespace distrun {

class PlaceTeller {
 public:
  // From here on the signal is blocked in every thread that is started.  `channel` must live for as
  // long as the process.
  explicit PlaceTeller(ResultChannel& channel);
};

}  // namespace distrun
