#include "parallel/ddp/late_future.h"

#include <utility>

namespace distrun::internal {

namespace {

thread_local bool has_late_future = false;

}  // namespace

void note_late_future() { has_late_future = true; }

bool take_late_future() { return std::exchange(has_late_future, false); }

}  // namespace distrun::internal
