// Finds places where text of unknown origin may be cut.
//
//     whole_utf8("caf\xC3")      // "caf": é is incomplete
//     last_newline("a\nb\nc")    // 3
//
// Pure.
#pragma once

#include <cstddef>
#include <string_view>

namespace distrun {

// `text` without an incomplete character at its end; bytes that are not UTF-8 stay.
std::string_view whole_utf8(std::string_view text);

// The index of the last '\n', or npos.  Much faster than rfind(), which goes byte by byte.
std::size_t last_newline(std::string_view text);

}  // namespace distrun
