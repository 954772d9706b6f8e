// Helpers for text that a user wrote.  Pure.
#pragma once

#include <string>
#include <string_view>

namespace distrun {

inline std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

// Changes only A to Z, whatever the locale.
inline std::string ascii_lower(std::string_view text) {
  std::string small(text);
  for (char& letter : small) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  return small;
}

}  // namespace distrun
