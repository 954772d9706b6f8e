#include "common/text/text_cut.h"

#include <algorithm>
#include <cstring>

namespace distrun {

namespace {

constexpr std::size_t kCharacterBytesMax = 4;  // Of UTF-8.

}  // namespace

std::string_view whole_utf8(std::string_view text) {
  for (std::size_t back = 1; back <= std::min(text.size(), kCharacterBytesMax); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if (byte < 0x80) break;
    if (byte < 0xC0) continue;  // Not the first byte of its character.
    const std::size_t bytes = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;
    if (back < bytes) text.remove_suffix(back);
    break;
  }
  return text;
}

std::string_view cut_to_bytes(std::string_view text, std::size_t bytes_max) {
  return text.size() <= bytes_max ? text : whole_utf8(text.substr(0, bytes_max));
}

std::string shortened(std::string_view text, std::size_t bytes_max) {
  const std::string_view kept = cut_to_bytes(text, bytes_max);
  return std::string(kept) + (kept.size() < text.size() ? "…" : "");
}

std::string_view from_first_character(std::string_view text) {
  std::size_t within = 0;  // Bytes that continue a character.
  while (within < text.size() && (static_cast<unsigned char>(text[within]) & 0xC0) == 0x80)
    ++within;
  return text.substr(within < kCharacterBytesMax ? within : 0);  // More are not UTF-8.
}

std::string_view cut_to_last_bytes(std::string_view text, std::size_t bytes_max) {
  if (text.size() <= bytes_max) return text;
  return from_first_character(text.substr(text.size() - bytes_max));
}

std::string cut_to_columns(std::string text, int columns) {
  if (columns < 1) return "";
  int characters = 0;
  std::size_t last = 0;  // Start of the last character that fits.
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool begins_character = (static_cast<unsigned char>(text[i]) & 0xC0) != 0x80;
    if (!begins_character) continue;
    if (characters == columns) return text.substr(0, last) + "…";
    ++characters;
    last = i;
  }
  return text;
}

std::size_t last_newline(std::string_view text) {
  const void* found = ::memrchr(text.data(), '\n', text.size());
  if (found == nullptr) return std::string_view::npos;
  return static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

}  // namespace distrun
