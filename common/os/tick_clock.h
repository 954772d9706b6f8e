// The steady clock at the last tick of the kernel. Takes a tenth of the time of
// steady_clock::now(), and is some milliseconds behind it.
//
//     const auto deadline = deadline_after(timeout, tick_after_now());
//
// Thread safety: any thread.
#pragma once

#include <chrono>

#include <time.h>

namespace distrun {

namespace internal {

inline std::chrono::steady_clock::time_point time_of(const timespec& time) {
  return std::chrono::steady_clock::time_point(std::chrono::seconds(time.tv_sec) +
                                               std::chrono::nanoseconds(time.tv_nsec));
}

}  // namespace internal

inline std::chrono::steady_clock::time_point tick_before_now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
  return internal::time_of(time);
}

// When the next tick is due: after now, unless the tick is late, as in a virtual machine that was
// paused. A deadline may then be early by that time.
inline std::chrono::steady_clock::time_point tick_after_now() {
  static const auto tick = [] {
    timespec length{};
    ::clock_getres(CLOCK_MONOTONIC_COARSE, &length);
    return internal::time_of(length).time_since_epoch();
  }();
  return tick_before_now() + tick;
}

}  // namespace distrun
