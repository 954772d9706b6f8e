#include "backends/shm/host/futex.h"

#include <climits>
#include <ctime>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace distrun::shm {

namespace {

std::uint32_t* address_of(std::atomic<std::uint32_t>& word) {
  static_assert(sizeof(word) == sizeof(std::uint32_t));
  static_assert(std::atomic<std::uint32_t>::is_always_lock_free);
  return reinterpret_cast<std::uint32_t*>(&word);
}

}  // namespace

void sleep_on(std::atomic<std::uint32_t>& word, std::uint32_t seen,
              std::chrono::milliseconds limit) {
  const auto nanoseconds = std::chrono::nanoseconds(limit).count();
  const timespec time{.tv_sec = nanoseconds / 1'000'000'000,
                      .tv_nsec = nanoseconds % 1'000'000'000};
  ::syscall(SYS_futex, address_of(word), FUTEX_WAIT, seen, &time, nullptr, 0);
}

void wake_sleepers(std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, address_of(word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace distrun::shm
