#include "testsuites/harness/report/xml_text.h"

#include <cstdint>

namespace distrun {

namespace {

// 0 if `text` starts with invalid or overlong UTF-8.
std::size_t character_bytes(std::string_view text, std::uint32_t& code) {
  const auto first = static_cast<unsigned char>(text[0]);
  const std::size_t bytes = first < 0x80   ? 1
                            : first < 0xC0 ? 0
                            : first < 0xE0 ? 2
                            : first < 0xF0 ? 3
                            : first < 0xF8 ? 4
                                           : 0;
  if (bytes == 0 || bytes > text.size()) return 0;
  code = bytes == 1 ? first : first & (0x7FU >> bytes);
  for (const char byte : text.substr(1, bytes - 1)) {
    const auto bits = static_cast<unsigned char>(byte);
    if ((bits & 0xC0) != 0x80) return 0;
    code = (code << 6) | (bits & 0x3F);
  }
  constexpr std::uint32_t kFirstOf[] = {0, 0, 0x80, 0x800, 0x10000};
  return code >= kFirstOf[bytes] ? bytes : 0;
}

// "Char" in XML 1.0: https://www.w3.org/TR/xml/#charsets
bool is_allowed(std::uint32_t code) {
  return code == '\t' || code == '\n' || code == '\r' || (code >= 0x20 && code <= 0xD7FF) ||
         (code >= 0xE000 && code <= 0xFFFD) || (code >= 0x10000 && code <= 0x10FFFF);
}

}  // namespace

std::string xml_text(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    std::uint32_t code = 0;
    const std::size_t bytes = character_bytes(text, code);
    const bool good = bytes > 0 && is_allowed(code);
    result += good ? text.substr(0, bytes) : std::string_view("\uFFFD");
    text.remove_prefix(good ? bytes : 1);
  }
  return result;
}

}  // namespace distrun
