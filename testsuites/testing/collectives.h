// The collectives that this process has run, from c10d's flight recorder.
//
//     record_collectives();                                   // before the first group exists
//     …
//     CollectiveRecord made = collectives_made();
//     std::string where = last_collective_in(collectives_trace());    // for a rank that hangs
//
// Gloo records each collective when it starts. It does not record send, recv, or a collective whose
// arguments it rejects; reduce_scatter appears as the all-reduce that implements it. Python reads
// the same recorder, so results are comparable.
//
// Thread safety: any thread, even while another is in a collective. Not in signal handlers.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "testsuites/harness/protocol/test_facts.h"

namespace distrun {

// Older records are dropped.
inline constexpr int kCollectivesKept = 100'000;
inline constexpr std::size_t kStretchesMax = 2000;

// Makes the recorder keep kCollectivesKept entries unless TORCH_FR_BUFFER_SIZE is set. REQUIRES:
// the process has one thread, as this sets a variable, and has run no collective, as the first one
// reads it.
void record_collectives();

// The c10d::Backend method of a work's title: "gloo:all_reduce" is "allreduce".
std::string op_of(std::string title);

// `counted` is in order of first appearance. If records were dropped, its last entry is
// "(forgotten)" with their number. At most kStretchesMax stretches.
CollectiveRecord collectives_made();

// The recorder's contents, for the functions below. Waits for its lock, but is much faster than
// they are.
std::string collectives_trace();

// The unfinished collectives, a line for equal ones; if there are none, the last completed one.
// Gloo records an end shortly after wait() returns.  A failed collective counts as completed.
//
//     allreduce, number 3 of group default_pg, has not completed: Float [3, 2]
//     nothing is under way; the last collective, broadcast, number 2, has completed: Float [4]
//     no collective has run
// Throws if the trace is malformed.
std::string last_collective_in(std::string_view trace);

// Like collectives_made(). Throws if the trace is malformed.
CollectiveRecord collectives_in(std::string_view trace);

}  // namespace distrun
