// Ranks as readable text.
//
//     list_of_ranks({3})              // "rank 3"
//     list_of_ranks({0, 1, 3})        // "ranks 0, 1, 3"
//     list_of_ranks({0, 1, 2, 251})   // "ranks 0-2, 251"
//
// Pure.
#pragma once

#include <string>
#include <vector>

namespace distrun {

// Requires `ranks` to be ascending and not empty.
std::string list_of_ranks(const std::vector<int>& ranks);

}  // namespace distrun
