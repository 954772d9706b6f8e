// ObservedWork wraps a backend's work, and calls a function when its tensors have their values, or
// it has failed, and before the caller can know it: whoever waits, waits for the function too.
//
// Otherwise as the wrapped work.  Thread safety: as the work; the function runs once, on the thread
// that waits or on that of the backend.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include <ATen/core/ivalue.h>
#include <c10/util/intrusive_ptr.h>

#include "backends/group/forwarding_work.h"

namespace distrun::internal {

class ObservedWork : public ForwardingWork {
 public:
  enum class Outcome { kDone, kFailed };
  ObservedWork(WorkPtr work, std::function<void(Outcome)> on_end);

  bool isCompleted() override;
  bool wait(std::chrono::milliseconds timeout) override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  struct End;  // Calls the function once.

  const std::shared_ptr<End> end_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;  // Null if the wrapped work has none.
};

}  // namespace distrun::internal
