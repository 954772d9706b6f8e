// Work refers to an operation in progress.  An operation is a collective, a send or a receive.
// Collectives with `async_op`, isend() and irecv() return a Work.
//
//     Work work = all_reduce(tensor, ReduceOp::SUM, {.async_op = true});
//     …                                     // Do not use the tensor here.
//     work.wait();                          // Throws if the collective has failed.
//     std::cout << tensor;                  // The result.
//
// Copies of a Work are cheap and refer to the same operation.  If a Work is destroyed, its
// operation is not canceled.  An operation keeps its tensors until it has ended.
//
// In "gloo", a send, a receive and a reduce_scatter() complete in wait(), and not earlier.  If
// wait() is never called, the group keeps the operation and its tensors.
//
// Thread safety: any thread.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

namespace c10d {
class Work;
}
namespace c10::ivalue {
struct Future;
}

namespace distrun {

class Work {
 public:
  // Creates an empty Work, which has no operation.  Its wait() returns at once.  Collectives
  // without `async_op` return an empty Work, and so do all calls on a rank outside the group.
  Work() = default;

  // Returns whether this Work has an operation, even if the operation has ended already.
  explicit operator bool() const { return static_cast<bool>(impl_); }

  // Waits for the result.  With a timeout of zero, wait() throws at once if the operation has not
  // completed.
  //
  // If wait() throws at a timeout that is shorter than the group's timeout, the operation is still
  // in progress, and you can call wait() again.
  //
  // Operations that complete in wait() (see above) are an exception.  If wait() times out with a
  // timeout above zero, such an operation fails, and every later wait() throws the same error.  If
  // the operation is a send or a receive in "gloo", the group is then unusable.  With a timeout of
  // zero, wait() throws unless an earlier wait() has succeeded, but the operation remains in
  // progress.
  //
  // Blocks: at most `timeout`.  If `timeout` is not set, at most the group's timeout.  After the
  // timeout, wait() can need two more seconds to find out which ranks are missing.  For a
  // reduce_scatter() in "gloo", wait() always uses the group's timeout, unless `timeout` is zero.
  // Throws: the exceptions of the call without `async_op`.
  // Also throws c10::DistBackendError at the timeout.
  void wait(std::optional<std::chrono::milliseconds> timeout = std::nullopt) const;

  // Returns whether the operation has ended.  If it has ended, wait() returns or throws at once.
  // For an operation that completes in wait(), is_completed() returns false until wait() has been
  // called.
  bool is_completed() const;

  // Returns the output tensors, if the backend provides them.  Call wait() first.  After
  // gather_single(), the list on rank `dst` has one tensor for each rank instead of
  // `gather_tensor`.  With "gloo", the list after an all_to_all() with different sizes has one
  // tensor of one dimension.
  std::vector<at::Tensor> result() const;

  // Returns a future whose value is the list of output tensors.  Communication hooks (comm_hook.h)
  // need this future.  To use it, include <ATen/core/ivalue.h>.
  //
  // Throws: c10::Error if this Work is empty, or if the backend provides no future.  "gloo"
  // provides no future for operations that complete in wait().
  c10::intrusive_ptr<c10::ivalue::Future> get_future() const;

  // If the operation is a receive, returns the global rank of the sender.  Call wait() first.
  //
  // Throws: c10::Error if this Work is empty or has not received a tensor.
  int source_rank() const;

  // Returns LibTorch's c10d::Work, or null if this Work is empty.  To use it, include
  // <torch/csrc/distributed/c10d/Work.hpp>.
  const c10::intrusive_ptr<c10d::Work>& c10d_work() const;

  struct Impl;
  // Only distrun calls this constructor.
  explicit Work(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

 private:
  std::shared_ptr<const Impl> impl_;
};

}  // namespace distrun
