// Makes text valid UTF-8, for formats that accept nothing else.
//
//     valid_utf8("a\xff")    // "a\uFFFD"
//
// Pure.
#pragma once

#include <string>
#include <string_view>

namespace distrun {

// Replaces bytes that are not UTF-8 by U+FFFD.
std::string valid_utf8(std::string_view text);

}  // namespace distrun
