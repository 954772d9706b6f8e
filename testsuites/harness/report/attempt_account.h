// What is told of an attempt, rank by rank, as lines of text: the console's and JUnit's.
//
//     rank 2: crashed
//       suites/comm.cc:14: Expected equality of these values:
//           1
//           2
//       ended: signal SIGSEGV (11)
//       output:
//         [rank 2] hello
//     ranks 0, 1, 3: did not end
//       stood at:
//         …
//
// The culprits come first, in their order, then the rest by rank.  Ranks of which the same is to be
// told are told of once.  Control characters are escaped: "\x1b".  Pure.
#pragma once

#include <string>

#include "testsuites/harness/run/test_events.h"

namespace distrun {

enum class WithOutput { kNo, kYes };

// Empty where nothing was started.
std::string account_of(const AttemptResult& attempt, WithOutput with_output);

// Only what the ranks wrote: "[rank 0] hello\n[rank 1] hello\n", rank by rank.
std::string output_of(const AttemptResult& attempt);

// `text` with `prefix` before each of its lines; the last one is ended too.
std::string with_prefix(std::string_view prefix, std::string_view text);

}  // namespace distrun
