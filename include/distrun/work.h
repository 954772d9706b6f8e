// Work is a collective in progress: the result of a call with `async_op`.
//
//     Work work = all_reduce(tensor, ReduceOp::SUM, {.async_op = true});
//     …                                     // The tensor is in use, here and on other ranks.
//     work.wait();                          // The result is available, or this throws.
//
// Copies are cheap and refer to the same collective.  Destroying a Work does not cancel its
// collective.  The collective keeps its tensors until it ends.  In "gloo" only wait() completes a
// send, a receive or a reduce_scatter.  Without a wait(), the group keeps the operation and its
// tensors.
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
  // Blocks: for at most `timeout`, or the group's timeout if it is not set.  Zero does not wait,
  // and throws for an operation that only wait() completes.  After the timeout it can take two more
  // seconds until the error is thrown, because distrun first finds out which ranks are missing.  A
  // reduce_scatter in "gloo" always uses the group's timeout.
  // Throws: what the collective throws without `async_op`; c10::DistBackendError at the timeout.
  //
  // After a timeout that is shorter than the group's, the collective is still in progress, and
  // wait() can be called again.  There is one exception: an operation without a future (see
  // get_future()) ends at a timeout that is not zero, and each later wait() throws the same error.
  // If it is a send or a receive in "gloo", the group is then unusable.
  void wait(std::optional<std::chrono::milliseconds> timeout = std::nullopt) const;

  // Returns whether wait() would return or throw at once.  For operations that only wait()
  // completes, returns false until wait() has been called.
  bool is_completed() const;

  // Returns the output tensors, if the backend provides them.  Call wait() first.  For
  // gather_single(), rank `dst` gets one tensor for each rank instead.  For all_to_all() with
  // different sizes, "gloo" returns one flat tensor.
  std::vector<at::Tensor> result() const;

  // Returns a future of the list of output tensors, for communication hooks (distrun/comm_hook.h).
  // Include <ATen/core/ivalue.h>.
  //
  // Throws: c10::Error if nothing is in progress or the backend has no future.  "gloo" has no
  // future for operations that only wait() completes.
  c10::intrusive_ptr<c10::ivalue::Future> get_future() const;

  // Returns the global rank that a receive from any rank got its tensor from.  Call wait() first.
  //
  // Throws: c10::Error if nothing has been received.
  int source_rank() const;

  // Returns LibTorch's object, or null if nothing is in progress.  Include
  // <torch/csrc/distributed/c10d/Work.hpp>.
  const c10::intrusive_ptr<c10d::Work>& c10d_work() const;

  struct Impl;
  // For distrun's own use.
  explicit Work(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

 private:
  std::shared_ptr<const Impl> impl_;
};

}  // namespace distrun
