// Deadlines of waits.
//
//     const auto deadline = deadline_after(timeout);            // From now on,
//     const auto later = deadline_after(timeout, began);        // or from another time.
//
// Plain addition overflows for milliseconds::max() and gives a deadline in the past.
#pragma once

#include <algorithm>
#include <chrono>

namespace distrun {

// `time` after `begin`. time_point::max(), which means never, if `time` is over a year; `begin` if
// it is negative.
inline std::chrono::steady_clock::time_point deadline_after(
    std::chrono::milliseconds time,
    std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now()) {
  using Clock = std::chrono::steady_clock;
  if (time > std::chrono::hours(24 * 365)) return Clock::time_point::max();
  return begin + std::max(time, std::chrono::milliseconds(0));
}

// `deadline` moved by the length of a pause (not negative). Never stays never.
inline std::chrono::steady_clock::time_point postponed(
    std::chrono::steady_clock::time_point deadline, std::chrono::steady_clock::duration time) {
  constexpr auto kNever = std::chrono::steady_clock::time_point::max();
  return deadline > kNever - time ? kNever : deadline + time;
}

}  // namespace distrun
