#include "backends/shm/host/patience.h"

#include <algorithm>

#include <sched.h>

#include "backends/shm/host/futex.h"

namespace distrun::shm {

WaitPolicy wait_policy(int ranks, int cpus) {
  if (ranks <= cpus) return {.looks = 2000, .yields = 50};
  return {.looks = 2, .yields = std::max(20, 2 * ranks / cpus)};
}

void Patience::pause() {
  if (!yields_next()) {
    pause_briefly();
    ++looks_;
    return;
  }
  ::sched_yield();
  ++yields_;
}

}  // namespace distrun::shm
