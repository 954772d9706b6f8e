// When a call gives up waiting for other ranks: at a deadline, or some time after it started to
// wait and after the rank for which it waits last moved on.
//
//     group.run(std::chrono::milliseconds(100), …);   // A call that need not wait reads no clock.
//     group.run(deadline, …);
//
// Thread safety: as of a value.
#pragma once

#include <chrono>
#include <variant>

#include "common/deadline.h"
#include "common/os/tick_clock.h"

namespace distrun::shm {

class CallLimit {
 public:
  using Clock = std::chrono::steady_clock;

  CallLimit(Clock::time_point deadline) : limit_(deadline) {}        // NOLINT: implicit.
  CallLimit(std::chrono::milliseconds timeout) : limit_(timeout) {}  // NOLINT: implicit.

  // For a call that starts to wait now.
  Clock::time_point deadline() const {
    if (const auto* deadline = std::get_if<Clock::time_point>(&limit_)) return *deadline;
    return deadline_after(std::get<std::chrono::milliseconds>(limit_), tick_after_now());
  }

 private:
  std::variant<Clock::time_point, std::chrono::milliseconds> limit_;
};

}  // namespace distrun::shm
