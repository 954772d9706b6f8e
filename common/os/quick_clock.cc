#include "common/os/quick_clock.h"

#include <cstdint>
#include <fstream>
#include <string>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace distrun {

namespace {

using Time = std::chrono::sys_time<std::chrono::nanoseconds>;

Time system_time() {
  return std::chrono::time_point_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now());
}

#if defined(__x86_64__)

// How long the counter is trusted after both clocks were read.
constexpr std::chrono::nanoseconds kTrusted = std::chrono::milliseconds(1);
// By how much the two clocks may differ.
constexpr std::chrono::nanoseconds kError = std::chrono::microseconds(10);
// The thread was interrupted between two readings if they differ by more.
constexpr std::uint64_t kCountsTogether = 2000;

// The kernel has checked that it runs at one rate, and is the same on all processors.
bool is_counter_trusted() {
  std::ifstream file("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  std::string name;
  return std::getline(file, name) && name == "tsc";
}

// The clocks of a thread.
class Clocks {
 public:
  Time now() {
    const std::uint64_t counts = __rdtsc() - counter_;
    const double passed = static_cast<double>(counts) * nanoseconds_per_count_;
    const bool is_trusted = passed > 0 && passed < static_cast<double>(kTrusted.count());
    const Time now =
        is_trusted ? time_ + std::chrono::nanoseconds(static_cast<std::int64_t>(passed)) : read();
    // It does not go back, unless someone has set the clock.
    if (now < latest_ && latest_ - now < kError) return latest_;
    latest_ = now;
    return now;
  }

 private:
  Time read() {
    const std::uint64_t before = __rdtsc();
    const Time time = system_time();
    if (__rdtsc() - before > kCountsTogether) return time;
    const std::chrono::nanoseconds passed = time - time_;
    // Of a shorter time, the rate would be inexact; in a longer one, someone may have set the
    // clock.
    if (passed >= kTrusted / 2 && passed < std::chrono::seconds(1) && before > counter_) {
      nanoseconds_per_count_ =
          static_cast<double>(passed.count()) / static_cast<double>(before - counter_);
    }
    if (passed >= kTrusted / 2 || passed.count() < 0) {
      counter_ = before;
      time_ = time;
    }
    return time;
  }

  // Both were read at one moment.
  std::uint64_t counter_ = 0;
  Time time_;
  double nanoseconds_per_count_ = 0;  // 0: not known.
  Time latest_;
};

#endif

}  // namespace

Time quick_time_now() {
#if defined(__x86_64__)
  static const bool is_trusted = is_counter_trusted();
  static thread_local Clocks clocks;
  return is_trusted ? clocks.now() : system_time();
#else
  return system_time();
#endif
}

}  // namespace distrun
