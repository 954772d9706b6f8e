// Work is a collective in progress: the result of a call with `async_op`.
//
//     Work work = all_reduce(tensor, ReduceOp::SUM, {.async_op = true});
//     …                                     // The tensor is in use, here and on other ranks.
//     work.wait();                          // The result is available, or this throws.
//
// Copies are cheap and refer to the same collective.  Destroying a Work does not cancel its
// collective.  The collective keeps its tensors until it ends.  In "gloo", only wait() completes a
// send, a receive or a reduce_scatter.  If wait() is not called, the group keeps the operation and
// its tensors.
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
  // Creates a Work without a collective: wait() returns at once.  Blocking calls, and calls on a
  // rank outside the group, return such a Work.
  Work() = default;

  // Returns whether this is the Work of a collective, in progress or ended.
  explicit operator bool() const { return static_cast<bool>(impl_); }

  // Waits for the result.
  //
  // Blocks: at most `timeout`, or the group's timeout if `timeout` is not set.  With zero, wait()
  // throws at once if the operation has not completed.  Some operations complete only in wait():
  // for these, zero throws unless an earlier wait() succeeded.  After the timeout it can take two
  // more seconds until wait() throws, because distrun first finds out which ranks are missing.  A
  // reduce_scatter in "gloo" always uses the group's timeout.
  // Throws: the exceptions of the collective without `async_op`; c10::DistBackendError at the
  // timeout.
  //
  // If wait() throws at a timeout that is shorter than the group's, the collective is still in
  // progress, and wait() can be called again.  This is different for an operation without a future
  // (see get_future()).  If wait() times out, and its timeout was above zero, such an operation has
  // failed, and each later wait() throws the same error.  If the operation is a send or a receive
  // in "gloo", the group is then unusable.
  void wait(std::optional<std::chrono::milliseconds> timeout = std::nullopt) const;

  // Returns whether wait() would return or throw at once.  For an operation that only wait()
  // completes, returns false until wait() has been called.
  bool is_completed() const;

  // Returns the output tensors, if the backend provides them.  Call wait() first.  For
  // gather_single(), the result on rank `dst` is one tensor for each rank, not `gather_tensor`.
  // For all_to_all() with different sizes, the result with "gloo" is one flat tensor.
  std::vector<at::Tensor> result() const;

  // Returns a future whose value is the list of output tensors, for communication hooks
  // (distrun/comm_hook.h).  Include <ATen/core/ivalue.h>.
  //
  // Throws: c10::Error if this Work is empty (operator bool() is false), or if the backend provides
  // no future.  "gloo" provides no future for operations that only wait() completes.
  c10::intrusive_ptr<c10::ivalue::Future> get_future() const;

  // For a receive, returns the global rank of the sender.  Call wait() first.
  //
  // Throws: c10::Error if this Work is empty or has not received a tensor.
  int source_rank() const;

  // Returns LibTorch's object, or null if this Work is empty.  Include
  // <torch/csrc/distributed/c10d/Work.hpp>.
  const c10::intrusive_ptr<c10d::Work>& c10d_work() const;

  struct Impl;
  // For distrun's own use.
  explicit Work(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

 private:
  std::shared_ptr<const Impl> impl_;
};

}  // namespace distrun
