#include "backends/shm/host/patience.h"

#include <sched.h>

#include "backends/shm/host/futex.h"

namespace distrun::shm {

WaitPolicy wait_policy(int ranks, int cpus) {
  if (ranks <= cpus) return {.looks = 2000, .yields = 50};
  return {.looks = 2, .yields = 200, .idle_yields = 20};
}

void Patience::pause() {
  if (!yields_next()) {
    pause_briefly();
    ++looks_;
    return;
  }
  const auto begin = std::chrono::steady_clock::now();
  ::sched_yield();
  yielded(std::chrono::steady_clock::now() - begin);
}

void Patience::yielded(std::chrono::nanoseconds took) {
  // A yield in which another thread ran takes longer.
  constexpr std::chrono::microseconds kAlone(1);
  ++yields_;
  idle_ = took > kAlone ? 0 : idle_ + 1;
}

}  // namespace distrun::shm
