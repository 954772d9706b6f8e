// Work is a collective, send or receive in progress.  Collectives with `async_op`, isend() and
// irecv() return a Work.
//
//     Work work = all_reduce(tensor, ReduceOp::SUM, {.async_op = true});
//     …                                     // Do not use the tensor here.
//     work.wait();                          // Throws if the collective has failed.
//     std::cout << tensor;                  // The result.
//
// An operation is a collective, a send or a receive.  Copies of a Work are cheap and refer to the
// same operation.  Destroying a Work does not cancel the operation.  An operation keeps its tensors
// until it ends.
//
// In "gloo", a send, a receive and a reduce_scatter() complete only in wait().  If wait() is not
// called, the group keeps the operation and its tensors.
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

  // Returns whether this Work has an operation.  The operation may have ended already.
  explicit operator bool() const { return static_cast<bool>(impl_); }

  // Waits for the result.  With a timeout of zero, wait() throws at once if the operation has not
  // completed.
  //
  // If wait() throws at a timeout that is shorter than the group's, the operation is still in
  // progress, and you can call wait() again.
  //
  // Operations that complete only in wait() are an exception.  At any timeout above zero, such an
  // operation fails, and every later wait() throws the same error.  If the operation is a send or a
  // receive in "gloo", the group is then unusable.  With a timeout of zero, wait() throws unless an
  // earlier wait() has succeeded, but the operation stays in progress.
  //
  // Blocks: at most `timeout`, or the group's timeout if `timeout` is not set.  After the timeout,
  // wait() can need two more seconds to find out which ranks are missing.  For a reduce_scatter()
  // in "gloo", wait() always uses the group's timeout, unless `timeout` is zero.
  // Throws: the exceptions of the call without `async_op`.  c10::DistBackendError at the timeout.
  void wait(std::optional<std::chrono::milliseconds> timeout = std::nullopt) const;

  // Returns whether the operation has ended, so that wait() would return or throw at once.  For an
  // operation that completes only in wait(), returns false until wait() has been called.
  bool is_completed() const;

  // Returns the output tensors, if the backend provides them.  Call wait() first.  After
  // gather_single(), the list on rank `dst` has one tensor for each rank instead of
  // `gather_tensor`.  After all_to_all() with different sizes, the list with "gloo" has one
  // tensor of one dimension.
  std::vector<at::Tensor> result() const;

  // Returns a future whose value is the list of output tensors.  Communication hooks need it
  // (comm_hook.h).  Include <ATen/core/ivalue.h>.
  //
  // Throws: c10::Error if this Work is empty, or if the backend provides no future.  "gloo"
  // provides no future for operations that complete only in wait().
  c10::intrusive_ptr<c10::ivalue::Future> get_future() const;

  // Returns the global rank of the sender of a receive.  Call wait() first.
  //
  // Throws: c10::Error if this Work is empty or has not received a tensor.
  int source_rank() const;

  // Returns LibTorch's object, or null if this Work is empty.  Include
  // <torch/csrc/distributed/c10d/Work.hpp>.
  const c10::intrusive_ptr<c10d::Work>& c10d_work() const;

  struct Impl;
  // Only distrun calls this constructor.
  explicit Work(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

 private:
  std::shared_ptr<const Impl> impl_;
};

}  // namespace distrun
