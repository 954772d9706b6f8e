// Makes any bytes valid text for XML 1.0.
//
//     xml_text("\x1b[31mred\xFF")    // "\uFFFD[31mred\uFFFD"
//
// XML cannot represent most control characters, even escaped. Each byte that is not part of an
// allowed character becomes U+FFFD. Tab, line feed, carriage return, < and & do not change: the
// writer escapes the latter. Pure.
#pragma once

#include <string>
#include <string_view>

namespace distrun {

std::string xml_text(std::string_view text);

}  // namespace distrun
