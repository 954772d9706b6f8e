// The system clock for times that are taken every microsecond. On x86-64, it reads the processor's
// counter, and the system clock once a millisecond: that takes a third of the time of
// system_clock::now(), and differs from it by a few microseconds at most. If someone sets the
// clock, it may be wrong for a millisecond more.
//
//     const auto began = quick_time_now();
//
// Elsewhere, and if the kernel did not trust the counter at the first call, it is
// system_clock::now().
//
// Thread safety: any thread. Times of one thread do not go back; those of two may, by the same
// microseconds.
#pragma once

#include <chrono>

namespace distrun {

std::chrono::sys_time<std::chrono::nanoseconds> quick_time_now();

}  // namespace distrun
