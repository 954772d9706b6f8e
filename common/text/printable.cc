#include "common/text/printable.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/text/text_cut.h"

namespace distrun {

namespace {

// The bytes of the control character at the start of `text`; 0 if it starts with another one.
std::size_t control_bytes(std::string_view text) {
  const auto code = [text](std::size_t index) {
    return index < text.size() ? static_cast<unsigned char>(text[index]) : 0U;
  };
  const auto is_in = [](unsigned one, unsigned first, unsigned last) {
    return one >= first && one <= last;
  };
  if (code(0) < 0x20 || code(0) == 0x7F) return 1;
  if (code(0) == 0xC2 && is_in(code(1), 0x80, 0x9F)) return 2;  // U+0080 to U+009F
  if (code(0) != 0xE2) return 0;
  if (code(1) == 0x80 && is_in(code(2), 0xA8, 0xAE)) return 3;  // U+2028 to U+202E
  if (code(1) == 0x81 && is_in(code(2), 0xA6, 0xA9)) return 3;  // U+2066 to U+2069
  return 0;
}

}  // namespace

std::string printable(std::string_view text, std::size_t bytes_max) {
  std::string shown;
  std::string_view rest = cut_to_bytes(text, bytes_max);
  while (!rest.empty()) {
    const std::size_t escaped = control_bytes(rest);
    for (const char byte : rest.substr(0, escaped)) {
      shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
    }
    if (escaped == 0) shown += rest.front();
    rest.remove_prefix(std::max<std::size_t>(escaped, 1));
  }
  if (text.size() > bytes_max) shown += "…";
  return shown;
}

}  // namespace distrun
