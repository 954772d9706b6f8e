#include "backends/shm/host/test/model/operation.h"

#include <atomic>

namespace distrun::shm::model {

namespace {

bool is_acquire(int order) {
  return order == static_cast<int>(std::memory_order_acquire) ||
         order == static_cast<int>(std::memory_order_consume) ||
         order == static_cast<int>(std::memory_order_acq_rel) ||
         order == static_cast<int>(std::memory_order_seq_cst);
}
bool is_release(int order) {
  return order == static_cast<int>(std::memory_order_release) ||
         order == static_cast<int>(std::memory_order_acq_rel) ||
         order == static_cast<int>(std::memory_order_seq_cst);
}

}  // namespace

const char* name_of(const Operation& operation) {
  switch (operation.kind) {
    case Kind::kLoad:
      return "load";
    case Kind::kStore:
      return "store";
    case Kind::kUpdate: {
      constexpr const char* kNames[] = {"exchange",  "fetch_add", "fetch_sub",
                                        "fetch_and", "fetch_or",  "fetch_xor"};
      return kNames[static_cast<int>(operation.update)];
    }
    case Kind::kCompare:
      return "compare_exchange";
    case Kind::kSleep:
      return "sleep";
    case Kind::kAsleep:
      return "end of sleep";
    case Kind::kWake:
      return "wake";
    case Kind::kLock:
      return "lock";
    case Kind::kUnlock:
      return "unlock";
  }
  return "?";
}

bool is_on_atomic(Kind kind) { return kind <= Kind::kCompare; }
bool chooses_message(Kind kind) { return kind <= Kind::kSleep; }

bool acquires(const Operation& operation) {
  return operation.kind != Kind::kStore && is_acquire(operation.order);
}
bool releases(const Operation& operation) {
  return operation.kind != Kind::kLoad && is_release(operation.order);
}
bool failure_acquires(const Operation& operation) {
  return operation.kind == Kind::kCompare && is_acquire(operation.failure_order);
}

bool writes(const Operation& operation, std::uint64_t old) {
  return operation.kind == Kind::kStore || operation.kind == Kind::kUpdate ||
         (operation.kind == Kind::kCompare && old == operation.expected);
}

std::uint64_t updated(const Operation& operation, std::uint64_t old) {
  switch (operation.update) {
    case Update::kExchange:
      return operation.value;
    case Update::kAdd:
      return old + operation.value;
    case Update::kSubtract:
      return old - operation.value;
    case Update::kAnd:
      return old & operation.value;
    case Update::kOr:
      return old | operation.value;
    case Update::kXor:
      return old ^ operation.value;
  }
  return old;
}

std::uint64_t cut(std::uint64_t value, int bytes) {
  return bytes == 8 ? value : value & ((std::uint64_t{1} << (8 * bytes)) - 1);
}

}  // namespace distrun::shm::model
