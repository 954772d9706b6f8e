// The collectives that this process has run, from c10d's flight recorder.
//
//     record_collectives();                                   // before the first group exists
//     …
//     CollectiveRecord made = collectives_made();
//     std::string where = last_collective();                  // for a rank that hangs
//
// Gloo records each collective when it starts, without help from the caller.  It does not record
// send, recv, or a collective whose arguments it rejects; reduce_scatter appears as the all-reduce
// that implements it.  Python reads the same recorder, so results are comparable.
//
// Thread safety: any thread, even while another is in a collective.  Not in a signal handler.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "testsuites/harness/protocol/test_facts.h"

namespace distrun {

// Older records are dropped.
inline constexpr int kCollectivesKept = 100'000;
inline constexpr std::size_t kStretchesMax = 2000;

// Makes the recorder keep kCollectivesKept entries unless TORCH_FR_BUFFER_SIZE is set.  REQUIRES:
// the process has one thread (this sets a variable) and has run no collective yet: the recorder
// reads the variable at the first one.
void record_collectives();

// `counted` is in order of first appearance.  If records were dropped, its last entry is
// "(forgotten)" with their number.  At most kStretchesMax stretches.
CollectiveRecord collectives_made();

// The unfinished collectives, one line each; if there are none, the last completed one.  Gloo
// records an end shortly after wait() returns.  A failed collective counts as completed.
//
//     allreduce, number 3 of group default_pg, has not completed: Float [3, 2]
//     nothing is under way; the last collective, broadcast, number 2, has completed: Float [4]
//     no collective has run
std::string last_collective();

// The same for a given trace, as c10d::dump_fr_trace_json() returns it.  Throws if it is malformed.
CollectiveRecord collectives_in(std::string_view trace);
std::string last_collective_in(std::string_view trace);

}  // namespace distrun
