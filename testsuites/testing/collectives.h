// What collectives this process has made, as c10d's flight recorder tells it.
//
//     record_collectives();                                   // before the first group is made
//     …
//     std::vector<Collective> made = collectives_made();      // by op, sizes and dtype, counted
//     std::string where = last_collective();                  // of a rank that does not end
//
// Gloo records each collective when it is begun, with no help from the caller.  It does not record
// send and recv, nor a collective whose arguments it refuses; reduce_scatter is recorded as the
// all-reduce that Gloo makes of it.  Python's records come from the same place, so the two can be
// held against each other.
//
// Threads: any, at any time, also while another is inside a collective.  Not from a signal handler.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "testsuites/harness/protocol/test_facts.h"

namespace distrun {

// More than that, and the oldest are forgotten.
inline constexpr int kCollectivesKept = 100'000;

// Has the recorder keep kCollectivesKept, unless TORCH_FR_BUFFER_SIZE says otherwise.  The recorder
// reads that once, when the first collective of the process begins: call this before, and while
// the process has one thread, as it sets a variable.
void record_collectives();

// In the order of first appearance.  Where some were forgotten, the last is "(forgotten)", with
// their number as its count.
std::vector<Collective> collectives_made();

// What has been begun and has not completed, a line each; where there is no such thing, what
// completed last.  Gloo tells the recorder of an end a moment after it lets the caller's wait()
// return.  A collective that failed has completed too.
//
//     allreduce, number 3 of group default_pg, has not completed: Float [3, 2]
//     nothing is under way; the last collective, broadcast, number 2, has completed: Float [4]
//     no collective was made
std::string last_collective();

// The two above, of a trace: what c10d::dump_fr_trace_json() gives.  One that cannot be read is
// an exception.
std::vector<Collective> collectives_in(std::string_view trace);
std::string last_collective_in(std::string_view trace);

}  // namespace distrun
