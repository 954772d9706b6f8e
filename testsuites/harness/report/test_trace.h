// The results of a run as a trace (--trace FILE), which Perfetto and chrome://tracing show.
//
// Each attempt of a test is a process to the viewers, with a row per rank: a bar for the life of
// the rank, below it its collectives, sends and receives, and marks for failed assertions, crashes
// and kills.  Operations that overlap get further rows.
//
// The times are those of result_json.h. Pure.
#pragma once

#include <string>

#include "testsuites/harness/run/test_events.h"

namespace distrun {

std::string test_trace(const TestsBegun& begun, const TestsEnded& ended);

}  // namespace distrun
