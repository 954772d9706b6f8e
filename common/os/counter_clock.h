// A clock that a counter continues between two readings: a counter takes less time to read.
//
//     CounterClock clock;
//     const auto count = …;
//     if (const auto time = clock.time_at(count)) return *time;
//     const auto time = system_clock::now();
//     return clock.take({.count = count, .time = time, .count_after = …});
//
// It finds the counter's rate itself. Times do not go back, unless someone sets the clock back.
//
// Pure. Thread safety: one thread at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace distrun {

class CounterClock {
 public:
  using Time = std::chrono::sys_time<std::chrono::nanoseconds>;
  struct Reading {
    std::uint64_t count = 0;
    Time time;                      // Read after `count`.
    std::uint64_t count_after = 0;  // Read after `time`.
  };

  // How long a reading is continued.
  static constexpr std::chrono::nanoseconds kTrusted = std::chrono::milliseconds(1);

  // nullopt: take() a reading of both.
  std::optional<Time> time_at(std::uint64_t count) {
    const double passed = static_cast<double>(count - last_.count) * nanoseconds_per_count_;
    // Backwards, a count is a large one.
    if (!(passed > 0 && passed < static_cast<double>(kTrusted.count()))) return std::nullopt;
    return in_order(last_.time + std::chrono::nanoseconds(static_cast<std::int64_t>(passed)));
  }

  // Returns the reading's time.
  Time take(const Reading& reading) {
    // If more counts lie between, the thread was interrupted between the readings.
    constexpr std::uint64_t kTogether = 1000;
    if (reading.count_after - reading.count > kTogether) return in_order(reading.time);
    const std::chrono::nanoseconds passed = reading.time - last_.time;
    const bool is_short = passed >= std::chrono::nanoseconds(0) && passed < kTrusted / 2;
    // Until then, the rate would be inexact.
    if (is_short && nanoseconds_per_count_ == 0) return in_order(reading.time);
    nanoseconds_per_count_ = rate_to(reading);
    last_ = reading;
    return in_order(reading.time);
  }

 private:
  Time in_order(Time time) {
    constexpr std::chrono::microseconds kInexact(10);
    if (time < latest_ && latest_ - time < kInexact) return latest_;
    latest_ = time;
    return time;
  }

  // 0 if someone may have set the clock. If it went back, the rate is negative, and so not close to
  // the known one.
  double rate_to(const Reading& reading) const {
    const std::chrono::nanoseconds passed = reading.time - last_.time;
    if (passed > std::chrono::seconds(1) || reading.count <= last_.count) return 0;
    const double rate =
        static_cast<double>(passed.count()) / static_cast<double>(reading.count - last_.count);
    const double known = nanoseconds_per_count_ == 0 ? rate : nanoseconds_per_count_;
    return rate > 0.99 * known && rate < 1.01 * known ? rate : 0;
  }

  Reading last_;
  double nanoseconds_per_count_ = 0;  // 0: not known.
  Time latest_;
};

}  // namespace distrun
