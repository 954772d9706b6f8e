// Where text of unknown origin may be cut.
//
//     whole_utf8("caf\xC3")      // "caf": the rest of é is still to come
//     last_newline("a\nb\nc")    // 3
//
// Pure.
#pragma once

#include <cstddef>
#include <string_view>

namespace distrun {

// `text` without the character at its end that has only begun; bytes that are no UTF-8 stay.
std::string_view whole_utf8(std::string_view text);

// Where the last '\n' is, or npos.  Much faster than rfind(), which goes byte by byte.
std::size_t last_newline(std::string_view text);

}  // namespace distrun
