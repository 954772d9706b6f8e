// Deadlines: until when a wait may last.
//
//     const auto deadline = deadline_after(timeout);            // From now on,
//     const auto later = deadline_after(timeout, began);        // or from another time.
//
// Adding a time-out to a time by hand overflows for milliseconds::max(), a deadline in the past.
#pragma once

#include <algorithm>
#include <chrono>

namespace distrun {

// The end of `time` from `begin` on.  More than a year: time_point::max(), which is never.
// Negative: `begin`.
inline std::chrono::steady_clock::time_point deadline_after(
    std::chrono::milliseconds time,
    std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now()) {
  using Clock = std::chrono::steady_clock;
  if (time > std::chrono::hours(24 * 365)) return Clock::time_point::max();
  return begin + std::max(time, std::chrono::milliseconds(0));
}

// The deadline after a pause of `time`, which does not count and is not negative.  Never stays
// never.
inline std::chrono::steady_clock::time_point postponed(
    std::chrono::steady_clock::time_point deadline, std::chrono::steady_clock::duration time) {
  constexpr auto kNever = std::chrono::steady_clock::time_point::max();
  return deadline > kNever - time ? kNever : deadline + time;
}

}  // namespace distrun
