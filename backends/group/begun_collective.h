// BegunCollective stands for the work of a collective where somebody wants to know when it is
// waited for: a trace (distrun/trace.h) gives it to the caller in the place of the backend's own.
// For the files of this folder and of those above it.
//
// It is the work it has been made of, but for wait(), which goes by way of the listener.
// Threads: as of the work; the listener is called on the thread that waits.
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
    // Somebody waits: calls `wait` once, which throws what the backend throws.
    virtual void on_wait(const std::function<void()>& wait) = 0;
    // `work` waits for it, too, and then copies what has come into `tensors`: who needs those has
    // to wait for `work`.
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

// None: nobody listens to it.
const BegunCollective* as_begun_collective(const c10d::Work& work);

// Unless it is told another, its wait() has the timeout that its group was made with.
bool takes_first_timeout(c10d::Work& work);

// Waits for what LibTorch's group has begun, for as long as the group's timeout is now.
void wait_in(const c10::intrusive_ptr<c10d::ProcessGroup>& group, c10d::Work& work);

}  // namespace distrun::internal
