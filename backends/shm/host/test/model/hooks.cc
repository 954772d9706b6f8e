// The functions that the compiler calls in code that it compiles with -fsanitize=thread, and those
// of the system with which such code waits. They lead to the explorer instead of the sanitizer and
// the kernel. The linker's --wrap replaces those of the system (CMakeLists.txt).
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>

#include <poll.h>
#include <pthread.h>

#include "backends/shm/host/futex.h"
#include "backends/shm/host/test/model/explorer.h"
#include "backends/shm/host/test/model/operation.h"

namespace distrun::shm {

namespace model {
namespace {

void check_read(const void* address, std::size_t bytes) {
  if (is_modeled(address)) access(address, bytes, /*is_write=*/false);
}
void check_write(const void* address, std::size_t bytes) {
  if (is_modeled(address)) access(address, bytes, /*is_write=*/true);
}

int run_on_mutex(Kind kind, const void* mutex) {
  if (has_mutexes()) run({.kind = kind, .address = mutex});
  return 0;
}

}  // namespace
}  // namespace model

void sleep_on(std::atomic<std::uint32_t>& word, std::uint32_t seen,
              std::chrono::milliseconds /*limit*/) {
  model::run({.kind = model::Kind::kSleep, .address = &word, .bytes = 4, .value = seen});
}

void wake_sleepers(std::atomic<std::uint32_t>& word) {
  if (!model::is_modeled(&word) || !model::has_wakes()) return;
  model::run({.kind = model::Kind::kWake, .address = &word, .bytes = 4});
}

void pause_briefly() { model::pause(); }

}  // namespace distrun::shm

// NOLINTBEGIN: the names are those that the compiler uses.
using distrun::shm::model::check_read;
using distrun::shm::model::check_write;
using distrun::shm::model::is_modeled;
using distrun::shm::model::is_running;
using distrun::shm::model::Kind;
using distrun::shm::model::run;
using distrun::shm::model::run_on_mutex;
using distrun::shm::model::Update;

extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void* caller) { distrun::shm::model::enter_function(caller); }
void __tsan_func_exit() { distrun::shm::model::leave_function(); }
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
void __tsan_read_range(void* address, unsigned long bytes) { check_read(address, bytes); }
void __tsan_write_range(void* address, unsigned long bytes) { check_write(address, bytes); }

#define PLAIN(BYTES)                                                               \
  void __tsan_read##BYTES(void* address) { check_read(address, BYTES); }           \
  void __tsan_write##BYTES(void* address) { check_write(address, BYTES); }         \
  void __tsan_unaligned_read##BYTES(void* address) { check_read(address, BYTES); } \
  void __tsan_unaligned_write##BYTES(void* address) { check_write(address, BYTES); }
PLAIN(1)
PLAIN(2)
PLAIN(4)
PLAIN(8)
PLAIN(16)
#undef PLAIN

#define UPDATE(BITS, T, NAME, UPDATE_KIND, PLAINLY)                           \
  T __tsan_atomic##BITS##_##NAME(volatile T* address, T value, int order) {   \
    const void* place = const_cast<const T*>(address);                        \
    if (!is_modeled(place)) return PLAINLY(address, value, __ATOMIC_SEQ_CST); \
    return static_cast<T>(run({.kind = Kind::kUpdate,                         \
                               .address = place,                              \
                               .caller = __builtin_return_address(0),         \
                               .bytes = sizeof(T),                            \
                               .order = order,                                \
                               .update = UPDATE_KIND,                         \
                               .value = value}));                             \
  }
#define COMPARE(BITS, T, NAME)                                                              \
  int __tsan_atomic##BITS##_##NAME(volatile T* address, T* expected, T value, int order,    \
                                   int failure_order) {                                     \
    const void* place = const_cast<const T*>(address);                                      \
    if (!is_modeled(place)) {                                                               \
      return __atomic_compare_exchange_n(address, expected, value, false, __ATOMIC_SEQ_CST, \
                                         __ATOMIC_SEQ_CST);                                 \
    }                                                                                       \
    const T was = *expected;                                                                \
    *expected = static_cast<T>(run({.kind = Kind::kCompare,                                 \
                                    .address = place,                                       \
                                    .caller = __builtin_return_address(0),                  \
                                    .bytes = sizeof(T),                                     \
                                    .order = order,                                         \
                                    .failure_order = failure_order,                         \
                                    .value = value,                                         \
                                    .expected = was}));                                     \
    return *expected == was;                                                                \
  }
#define ATOMIC(BITS, T)                                                                \
  T __tsan_atomic##BITS##_load(const volatile T* address, int order) {                 \
    const void* place = const_cast<const T*>(address);                                 \
    if (!is_modeled(place)) return __atomic_load_n(address, __ATOMIC_SEQ_CST);         \
    return static_cast<T>(run({.kind = Kind::kLoad,                                    \
                               .address = place,                                       \
                               .caller = __builtin_return_address(0),                  \
                               .bytes = sizeof(T),                                     \
                               .order = order}));                                      \
  }                                                                                    \
  void __tsan_atomic##BITS##_store(volatile T* address, T value, int order) {          \
    const void* place = const_cast<const T*>(address);                                 \
    if (!is_modeled(place)) return __atomic_store_n(address, value, __ATOMIC_SEQ_CST); \
    run({.kind = Kind::kStore,                                                         \
         .address = place,                                                             \
         .caller = __builtin_return_address(0),                                        \
         .bytes = sizeof(T),                                                           \
         .order = order,                                                               \
         .value = value});                                                             \
  }                                                                                    \
  UPDATE(BITS, T, exchange, Update::kExchange, __atomic_exchange_n)                    \
  UPDATE(BITS, T, fetch_add, Update::kAdd, __atomic_fetch_add)                         \
  UPDATE(BITS, T, fetch_sub, Update::kSubtract, __atomic_fetch_sub)                    \
  UPDATE(BITS, T, fetch_and, Update::kAnd, __atomic_fetch_and)                         \
  UPDATE(BITS, T, fetch_or, Update::kOr, __atomic_fetch_or)                            \
  UPDATE(BITS, T, fetch_xor, Update::kXor, __atomic_fetch_xor)                         \
  COMPARE(BITS, T, compare_exchange_strong)                                            \
  COMPARE(BITS, T, compare_exchange_weak)
ATOMIC(8, std::uint8_t)
ATOMIC(16, std::uint16_t)
ATOMIC(32, std::uint32_t)
ATOMIC(64, std::uint64_t)
#undef ATOMIC
#undef COMPARE
#undef UPDATE

void __tsan_atomic_thread_fence(int) {
  if (is_running()) distrun::shm::model::require(false, "the model has no fences");
}
void __tsan_atomic_signal_fence(int) {}

void* __real_memcpy(void*, const void*, std::size_t);
void* __wrap_memcpy(void* to, const void* from, std::size_t bytes) {
  check_read(from, bytes);
  check_write(to, bytes);
  return __real_memcpy(to, from, bytes);
}
void* __real_memmove(void*, const void*, std::size_t);
void* __wrap_memmove(void* to, const void* from, std::size_t bytes) {
  check_read(from, bytes);
  check_write(to, bytes);
  return __real_memmove(to, from, bytes);
}
void* __real_memset(void*, int, std::size_t);
void* __wrap_memset(void* to, int value, std::size_t bytes) {
  check_write(to, bytes);
  return __real_memset(to, value, bytes);
}

// No process has ended.
int __real_poll(pollfd*, nfds_t, int);
int __wrap_poll(pollfd* all, nfds_t count, int limit) {
  return is_running() ? 0 : __real_poll(all, count, limit);
}

int __wrap_sched_yield() {
  distrun::shm::model::pause();
  return 0;
}

int __real_pthread_mutex_lock(pthread_mutex_t*);
int __wrap_pthread_mutex_lock(pthread_mutex_t* mutex) {
  return is_running() ? run_on_mutex(Kind::kLock, mutex) : __real_pthread_mutex_lock(mutex);
}
int __real_pthread_mutex_unlock(pthread_mutex_t*);
int __wrap_pthread_mutex_unlock(pthread_mutex_t* mutex) {
  return is_running() ? run_on_mutex(Kind::kUnlock, mutex) : __real_pthread_mutex_unlock(mutex);
}

// std::thread's. The mailbox's own thread never gets to run: the threads that wait do its work.
void __wrap__ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE(
    std::thread* thread, void*, void (*)()) {
  const pthread_t some = 1;
  __real_memcpy(static_cast<void*>(thread), &some, sizeof(some));
}
void __wrap__ZNSt6thread4joinEv(std::thread* thread) {
  const pthread_t none = 0;
  __real_memcpy(static_cast<void*>(thread), &none, sizeof(none));
}

}  // extern "C"
// NOLINTEND
