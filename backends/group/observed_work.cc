#include "backends/group/observed_work.h"

#include <mutex>
#include <utility>

#include "backends/group/work_future.h"

namespace distrun::internal {

struct ObservedWork::End {
  void happened(Outcome outcome) { std::call_once(once, on_end, outcome); }

  std::once_flag once;
  const std::function<void(Outcome)> on_end;
};

ObservedWork::ObservedWork(WorkPtr work, std::function<void(Outcome)> on_end)
    : ForwardingWork(std::move(work)), end_(new End{.once = {}, .on_end = std::move(on_end)}) {
  if (const auto future = future_of(*this->work())) {
    future_ = future->then(
        [end = end_](c10::ivalue::Future& its) {
          if (its.hasError()) end->happened(Outcome::kFailed);
          c10::IValue value = its.value();  // Throws if the operation failed.
          end->happened(Outcome::kDone);
          return value;
        },
        future->elementType());
  }
}

bool ObservedWork::wait(std::chrono::milliseconds timeout) {
  try {
    const bool done = ForwardingWork::wait(timeout);
    end_->happened(Outcome::kDone);
    return done;
  } catch (...) {
    // With a future, the wait may have timed out while the operation goes on.
    if (!future_) end_->happened(Outcome::kFailed);
    throw;
  }
}

bool ObservedWork::isCompleted() {
  return future_ ? future_->completed() : ForwardingWork::isCompleted();
}

c10::intrusive_ptr<c10::ivalue::Future> ObservedWork::getFuture() {
  return future_ ? future_ : ForwardingWork::getFuture();
}

}  // namespace distrun::internal
