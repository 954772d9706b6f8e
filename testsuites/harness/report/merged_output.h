// Merges the outputs of several ranks, so that lines that ranks have in common appear once.
//
//     merged_output({{1, "loading\nfailed\n"}, {0, "loading\n"}})
//     // [ranks 0, 1] loading
//     // [rank 1] failed
//
// Each rank's lines keep their order. If there is a choice, ranks given first come first. A line
// appears again if the ranks print it in different orders.
//
// Meant for shortened outputs: a line takes time up to the square of the number of ranks. Pure.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace distrun {

// Each pair: a rank, and its output.
std::string merged_output(const std::vector<std::pair<int, std::string>>& outputs);

}  // namespace distrun
