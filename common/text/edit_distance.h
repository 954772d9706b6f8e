// The edit distance of two words, for "did you mean …?".
//
//     edit_distance("restrats", "restarts")    // 2
//
// Pure.  Time is proportional to the product of the lengths.
#pragma once

#include <cstddef>
#include <string_view>

namespace distrun {

// The number of insertions, deletions and replacements of bytes that turn `from` into `to`.
std::size_t edit_distance(std::string_view from, std::string_view to);

}  // namespace distrun
