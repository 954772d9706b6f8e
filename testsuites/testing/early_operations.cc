#include "testsuites/testing/early_operations.h"

#include <atomic>

#include <ATen/record_function.h>

namespace distrun {

namespace {

// Priority 101 runs before every namespace-scope initializer.
std::atomic<int> operations;
at::CallbackHandle watching;

std::unique_ptr<at::ObserverContext> see(const at::RecordFunction&) {
  ++operations;
  return nullptr;
}

[[gnu::constructor(101)]] void watch() {
  watching =
      at::addGlobalCallback(at::RecordFunctionCallback(see).scopes({at::RecordScope::FUNCTION}));
}

}  // namespace

int operations_so_far() { return operations; }

void allow_operations() { at::removeCallback(watching); }

}  // namespace distrun
