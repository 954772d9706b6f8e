// The text about an attempt, rank by rank, for console and JUnit.
//
//     rank 2: crashed
//       suites/comm.cc:14: Expected equality of these values:
//           1
//           2
//       ended: signal SIGSEGV (11)
//     ranks 0, 1, 3: did not end
//       allreduce, number 1 of group default_pg, has not completed: Float [4]
//     where the ranks were: ranks 0, 1, 3 wait in all_reduce, called by step (comm.cc:12)
//       …
//     output:
//       [ranks 0-3] hello
//
// Culprits come first, in order. Ranks with equal text share an entry. Equal lines of output appear
// once (merged_output.h). Control characters are escaped: "\x1b". Pure.
#pragma once

#include <string>

#include "testsuites/harness/run/test_events.h"

namespace distrun {

// kYes is for the console: shows at most 10 failures, 100 lines of output per rank and 500 bytes
// per line, and says what was omitted.
enum class WithOutput { kNo, kYes };

// Empty if nothing was started.
std::string account_of(const AttemptResult& attempt, WithOutput with_output);

// Only the output, for the console: shortened, "[ranks 0, 1] hello\n". Empty if there is none.
std::string merged_output_of(const AttemptResult& attempt);

// Only the output, whole, rank by rank: "[rank 0] hello\n[rank 1] hello\n".
std::string output_of(const AttemptResult& attempt);

// Prefixes each line of `text`, and ends the last one.
std::string with_prefix(std::string_view prefix, std::string_view text);

}  // namespace distrun
