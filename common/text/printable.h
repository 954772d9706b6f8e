// Text of unknown origin, as it can be shown in a line of a terminal or a log.
//
//     printable("a\nb", 80)                  // a\x0ab
//     printable(std::string(9999, 'k'), 80)  // 80 bytes, and "…"
//
// Control characters are escaped; bytes that are no UTF-8 stay.  Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace distrun {

std::string printable(std::string_view text, std::size_t bytes_max);

}  // namespace distrun
