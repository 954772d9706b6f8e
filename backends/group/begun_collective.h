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

#include "backends/group/forwarding_work.h"

namespace distrun::internal {

class BegunCollective : public ForwardingWork {
 public:
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

  Listener& listener() const { return *listener_; }

  bool wait(std::chrono::milliseconds timeout) override;

 private:
  const std::shared_ptr<Listener> listener_;
};

// Null if the work has no listener.
const BegunCollective* as_begun_collective(const c10d::Work& work);

// Whether wait() without a timeout uses the one with which the group was created.
bool takes_first_timeout(c10d::Work& work);

// Waits for a work of LibTorch's group, up to the group's current timeout.
void wait_in(const c10::intrusive_ptr<c10d::ProcessGroup>& group, c10d::Work& work);

}  // namespace distrun::internal
