// Sizes, in bytes.
#pragma once

#include <cstddef>

namespace distrun {

inline constexpr std::size_t kKiB = 1024;
inline constexpr std::size_t kMiB = 1024 * kKiB;
inline constexpr std::size_t kGiB = 1024 * kMiB;

}  // namespace distrun
