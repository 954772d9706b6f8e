// Text of unknown origin, as XML 1.0 can hold it.
//
//     xml_text("\x1b[31mred\xFF")    // "\uFFFD[31mred\uFFFD"
//
// XML has no way to write most control characters, not even escaped, and a file that holds one is
// read by nobody.  Each byte that is not part of a character that XML allows becomes U+FFFD; tab,
// line feed and carriage return stay, and so do < and &: escaping is the writer's.  Pure.
#pragma once

#include <string>
#include <string_view>

namespace distrun {

std::string xml_text(std::string_view text);

}  // namespace distrun
