// The id of this process, without a system call.
//
//     const pid_t made_by = process_id();
//     …
//     if (process_id() != made_by) …   // A child of fork().
//
// Thread safety: any thread; also in a child of fork(). Wrong in a child of a plain clone(), which
// runs no handlers of pthread_atfork().
#pragma once

#include <atomic>

#include <pthread.h>
#include <sys/types.h>
#include <unistd.h>

namespace distrun {

namespace internal {

inline std::atomic<pid_t> known_process_id = 0;  // 0: not known.

}  // namespace internal

inline pid_t process_id() {
  if (const pid_t known = internal::known_process_id.load(std::memory_order_relaxed)) return known;
  static const bool forgets =
      pthread_atfork(nullptr, nullptr, [] { internal::known_process_id = 0; }) == 0;
  const pid_t id = ::getpid();
  if (forgets) internal::known_process_id = id;
  return id;
}

}  // namespace distrun
