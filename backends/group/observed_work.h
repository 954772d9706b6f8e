// ObservedWork wraps a backend's work, and calls a function when its tensors have their values, and
// before the caller can know it: whoever waits, waits for the function too.
//
// Otherwise as the wrapped work.  Thread safety: as the work; the function runs once, on the thread
// that waits or on that of the backend.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

namespace distrun::internal {

class ObservedWork : public c10d::Work {
 public:
  // `on_end` is not called if the operation fails.
  ObservedWork(c10::intrusive_ptr<c10d::Work> work, std::function<void()> on_end);

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  int sourceRank() const override;
  std::vector<at::Tensor> result() override;
  void synchronize() override;
  bool wait(std::chrono::milliseconds timeout) override;
  void blockCurrentStream() override;
  void abort() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFutureResult() override;
  float getDuration() const override;
  std::uint64_t getSequencenumber() const override;

 private:
  struct End;  // Calls the function once.

  const c10::intrusive_ptr<c10d::Work> work_;
  const std::shared_ptr<End> end_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;  // Null if `work_` has none.
};

}  // namespace distrun::internal
