// Whether a text begins with any of several.
//
//     constexpr std::array<std::string_view, 2> kKinds{"gloo::", "c10d::"};
//     begins_with_any("gloo::allreduce", kKinds)      // true
//
// Pure.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

namespace distrun {

template <std::size_t N>
bool begins_with_any(std::string_view text, const std::array<std::string_view, N>& beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(),
                     [text](std::string_view beginning) { return text.starts_with(beginning); });
}

}  // namespace distrun
