// Makes any bytes valid text for XML 1.0.
//
//     xml_text("\x1b[31mred\xFF")    // "\uFFFD[31mred\uFFFD"
//
// XML cannot represent most control characters, even escaped, and parsers reject files with them.
// Each byte that is not part of an allowed character becomes U+FFFD.  Tab, line feed and carriage
// return stay, and so do < and &: the writer escapes those.  Pure.
#pragma once

#include <string>
#include <string_view>

namespace distrun {

std::string xml_text(std::string_view text);

}  // namespace distrun
