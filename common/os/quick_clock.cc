#include "common/os/quick_clock.h"

#include <cstdint>
#include <fstream>
#include <string>

#include "common/os/counter_clock.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace distrun {

namespace {

CounterClock::Time system_time() {
  return std::chrono::time_point_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now());
}

#if defined(__x86_64__)

// The kernel has checked that it runs at one rate, and is the same on all processors.
bool is_counter_trusted() {
  std::ifstream file("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  std::string name;
  return std::getline(file, name) && name == "tsc";
}

CounterClock::Time counted_time(CounterClock& clock) {
  const std::uint64_t count = __rdtsc();
  if (const auto time = clock.time_at(count)) return *time;
  const auto time = system_time();
  return clock.take({.count = count, .time = time, .count_after = __rdtsc()});
}

#endif

}  // namespace

CounterClock::Time quick_time_now() {
#if defined(__x86_64__)
  static const bool is_trusted = is_counter_trusted();
  static thread_local CounterClock clock;
  return is_trusted ? counted_time(clock) : system_time();
#else
  return system_time();
#endif
}

}  // namespace distrun
