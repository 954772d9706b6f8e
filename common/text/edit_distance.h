// How far a word is from another: for "did you mean …?".
//
//     edit_distance("restrats", "restarts")    // 2
//
// Pure.  Takes time in proportion to the product of the lengths.
#pragma once

#include <cstddef>
#include <string_view>

namespace distrun {

// Of insertions, deletions and replacements of a byte: how many make one word of the other.
std::size_t edit_distance(std::string_view from, std::string_view to);

}  // namespace distrun
