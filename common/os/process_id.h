// The id of this process, without a system call.
//
//     const pid_t made_by = process_id();
//     …
//     if (process_id() != made_by) …   // A child of fork().
//
// Thread safety: any thread; also in a child of fork(). Wrong in a child of _Fork() or of a plain
// clone(), which run no handlers of pthread_atfork().
#pragma once

#include <atomic>

#include <pthread.h>
#include <sys/types.h>
#include <unistd.h>

namespace distrun {

namespace internal {

inline std::atomic<pid_t> known_process_id = 0;  // 0: not known.

// Before main(), when no other thread can call fork().
inline const bool children_forget_process_id =
    ::pthread_atfork(nullptr, nullptr, [] { known_process_id = 0; }) == 0;

}  // namespace internal

inline pid_t process_id() {
  if (const pid_t known = internal::known_process_id.load(std::memory_order_relaxed)) return known;
  const pid_t id = ::getpid();
  if (internal::children_forget_process_id) internal::known_process_id = id;
  return id;
}

}  // namespace distrun
