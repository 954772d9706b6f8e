// Splits a text at a character.
//
//     split("a,,b", ',')           // {"a", "", "b"}
//     words_of("a,,b,", ',')       // {"a", "b"}: without the empty ones
//
// Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace distrun {

// The views point into `text`. Of an empty text: one empty part.
inline std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (std::size_t stop; (stop = text.find(at)) != std::string_view::npos;) {
    parts.push_back(text.substr(0, stop));
    text.remove_prefix(stop + 1);
  }
  parts.push_back(text);
  return parts;
}

inline std::vector<std::string> words_of(std::string_view text, char at) {
  std::vector<std::string> parts;
  for (const std::string_view part : split(text, at)) {
    if (!part.empty()) parts.emplace_back(part);
  }
  return parts;
}

}  // namespace distrun
