// An access of a thread to shared memory: an operation on an atomic, a futex or a mutex.
// The hooks make it, the explorer chooses when it happens, and the memory knows its effect.
//
//     const Operation add{.kind = Kind::kUpdate, .address = &word, .bytes = 4,
//                         .order = __ATOMIC_ACQUIRE, .update = Update::kAdd, .value = 1};
//     name_of(add);      // "fetch_add"
//     acquires(add);     // true
//     updated(add, 41);  // 42
#pragma once

#include <cstdint>

namespace distrun::shm::model {

// kSleep loads the word and goes to sleep if it has the expected value. The thread is then kAsleep:
// its next step is the end of its sleep.
enum class Kind { kLoad, kStore, kUpdate, kCompare, kSleep, kAsleep, kWake, kLock, kUnlock };
enum class Update { kExchange, kAdd, kSubtract, kAnd, kOr, kXor };

struct Operation {
  Kind kind = Kind::kLoad;
  const void* address = nullptr;
  const void* caller = nullptr;  // Where the code goes on after it.
  int bytes = 0;
  int order = 0;  // A std::memory_order.
  int failure_order = 0;
  Update update = Update::kExchange;
  std::uint64_t value = 0;     // That is written, or to sleep on.
  std::uint64_t expected = 0;  // Of kCompare.
};

// "fetch_add", as in the code.
const char* name_of(const Operation& operation);

// Whether it is an operation on an atomic. Only these have an order.
bool is_on_atomic(Kind kind);
// Whether there is a choice among the messages of its location.
bool chooses_message(Kind kind);

// The effects of the order of an operation on an atomic. A load does not release, and a store does
// not acquire.
bool acquires(const Operation& operation);
bool releases(const Operation& operation);
bool failure_acquires(const Operation& operation);

// Whether it writes if the value before it is `old`. A kCompare may fail.
bool writes(const Operation& operation, std::uint64_t old);
// The value that a kUpdate writes instead of `old`.
std::uint64_t updated(const Operation& operation, std::uint64_t old);
// The lowest bytes of a value.
std::uint64_t cut(std::uint64_t value, int bytes);

}  // namespace distrun::shm::model
