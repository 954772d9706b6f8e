// Where the ranks of a test are, from stacks read from outside (stack_collector.h).
//
//     place_of(1, {stacks})
//     // "it is stopped (SIGSTOP)\nGroupTest_hangs_Test::TestBody (group_test.cc:12)\n…"
//     places_of({{0, stacks}, …}).line
//     // "rank 1 in load (group_test.cc:5); ranks 0, 2 in all_reduce (…)"
//
// Omits calls that lead to the test, which are always the same. Pure.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "evidence/report/named_backtrace.h"
#include "evidence/report/where_ranks_are.h"
#include "evidence/stack.h"
#include "evidence/stacks/symbol_names.h"

namespace distrun {

inline constexpr const char* kStopped = "it is stopped (SIGSTOP)\n";

// One call per line, outermost first, followed by other threads that are at work, and by processes
// that the rank has started. `processes` starts with the rank's. Empty if nothing is known.
std::string place_of(int rank, std::vector<ProcessStacks> processes);

// All ranks of a test: one line, and one tree.
Whereabouts places_of(const std::vector<RankStacks>& ranks);

// "  collectives\n    ranks 0, 2: allreduce, number 1, has not completed: Float [4]\n", by rank.
// Ranks with equal texts, which may have several lines, share an entry. Empty without ranks.
std::string collectives_text(const std::map<int, std::string>& told);

// Names functions and lines in the backtraces of a rank's output.
std::string with_named_backtraces(std::string_view output, const NameFrame& name);

// Not pure: reads the files named in backtraces, and closes them.
std::string with_named_backtraces(std::string_view output, SymbolNames& names);

}  // namespace distrun
