// The system clock for times that are taken every microsecond. On x86-64, it reads the processor's
// counter, and the system clock once a millisecond: that takes a third of the time of
// system_clock::now(), and differs from it by less than a microsecond. If someone sets the clock,
// or the machine is paused, it may be wrong for a millisecond more.
//
//     const auto began = quick_time_now();
//
// Elsewhere, and where the kernel does not trust the counter, it is system_clock::now().
//
// Thread safety: any thread. Times of different threads are not in order if less than a microsecond
// apart.
#pragma once

#include <chrono>

namespace distrun {

std::chrono::sys_time<std::chrono::nanoseconds> quick_time_now();

}  // namespace distrun
