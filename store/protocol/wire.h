// Numbers and texts on the wire: little-endian; a text follows its length.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace distrun {

static_assert(std::endian::native == std::endian::little, "the protocol is little-endian");

template <class Number>
void append_number(std::string& to, Number number) {
  char bytes[sizeof(number)];
  std::memcpy(bytes, &number, sizeof(number));
  to.append(bytes, sizeof(bytes));
}

// Requires sizeof(Number) bytes.
template <class Number>
Number number_at(std::string_view bytes) {
  Number number;
  std::memcpy(&number, bytes.data(), sizeof(number));
  return number;
}

inline void append_text(std::string& to, std::string_view text) {
  append_number<std::uint64_t>(to, text.size());
  to.append(text);
}

}  // namespace distrun
