// Until when a wait may last.
#pragma once

#include <algorithm>
#include <chrono>

namespace distrun::internal {

// From now on; never, where `time` is more than a year, and now, where it is negative.
inline std::chrono::steady_clock::time_point deadline_after(std::chrono::milliseconds time) {
  using Clock = std::chrono::steady_clock;
  if (time > std::chrono::hours(24 * 365)) return Clock::time_point::max();
  return Clock::now() + std::max(time, std::chrono::milliseconds(0));
}

}  // namespace distrun::internal
