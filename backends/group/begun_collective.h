// BegunCollective wraps the work of a collective, and tells a listener when the caller waits. A
// trace (distrun/trace.h) returns it instead of the backend's work.
//
// Only wait() differs from the wrapped work. Thread safety: as the work; the listener runs on the
// thread that waits.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

namespace distrun::internal {

class BegunCollective : public c10d::Work {
 public:
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;

  class Listener {
   public:
    virtual ~Listener() = default;
    // Called when the caller waits. Must call `wait` once, which throws the backend's errors.
    virtual void on_wait(const std::function<void()>& wait) = 0;
    // `work` also waits, and then copies the results into `tensors`. Code that needs `tensors` must
    // wait for `work`.
    virtual void ends_by(WorkPtr work, std::vector<at::Tensor> tensors) = 0;
  };

  BegunCollective(WorkPtr work, std::shared_ptr<Listener> listener);

  const WorkPtr& work() const { return work_; }
  Listener& listener() const { return *listener_; }

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
  const WorkPtr work_;
  const std::shared_ptr<Listener> listener_;
};

// Null if the work has no listener.
const BegunCollective* as_begun_collective(const c10d::Work& work);

// Whether wait() without a timeout uses the one with which the group was created.
bool takes_first_timeout(c10d::Work& work);

// Waits for a work of LibTorch's group, up to the group's current timeout.
void wait_in(const c10::intrusive_ptr<c10d::ProcessGroup>& group, c10d::Work& work);

}  // namespace distrun::internal
