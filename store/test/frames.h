// For tests: frames as a TCPStore client sends them.
//
//     frame(RequestCode::kSet, text("key") + text("value"))
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "store/protocol/request.h"

namespace distrun::testing {

template <class Number>
std::string bytes_of(Number number) {
  return {reinterpret_cast<const char*>(&number), sizeof(number)};
}

// A key or a value: its length, then its bytes.
inline std::string text(std::string_view content) {
  return bytes_of<std::uint64_t>(content.size()) + std::string(content);
}

inline std::string frame(RequestCode code, const std::string& fields = "") {
  return bytes_of(static_cast<std::uint8_t>(code)) + fields;
}

inline std::string greeting() { return frame(RequestCode::kValidate, bytes_of(kValidateMagic)); }

}  // namespace distrun::testing
