// Makes text of unknown origin safe to show on one line of a terminal or log.
//
//     printable("a\nb", 80)                  // a\x0ab
//     printable(std::string(9999, 'k'), 80)  // 80 bytes, and "…"
//
// Escapes control characters, also those of lines and of the direction of text (U+2028 to U+202E,
// U+2066 to U+2069); keeps bytes that are not UTF-8, and cuts between characters. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace distrun {

std::string printable(std::string_view text, std::size_t bytes_max);

}  // namespace distrun
