// Work is a collective under way: what a function returns that was called with `async_op`.
//
//     Work work = all_reduce(tensor, ReduceOp::SUM, {.async_op = true});
//     …                                     // the tensor is in use, on this and on other ranks
//     work.wait();                          // the result is there, or an error is thrown
//
// Dropping it abandons neither the collective nor its tensors: they are held until it has ended.
// Cheap to copy; all copies are the same one.
//
// In "gloo" nothing but wait() ends a send, a receive, and a reduce_scatter: it writes the output
// of the last.  One that is dropped before is held, with its tensors, as long as the group.
//
// Threads: any.
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
  // Of a call that has waited by itself, or of a rank that is not in the group: nothing is under
  // way, wait() returns at once.
  Work() = default;

  // Something is, or was, under way.
  explicit operator bool() const { return static_cast<bool>(impl_); }

  // Returns when the result is there.  Throws what the collective would have thrown without
  // `async_op`, and when `timeout` is over: the collective is still under way then.  Without a
  // `timeout` it waits as long as the group's says; with zero it does not wait.  So zero always
  // throws for a send or a receive in "gloo", which only wait() ends.
  //
  // With a send or a receive in "gloo" the group cannot be used any more after a `timeout` other
  // than zero; a reduce_scatter there has the group's instead.  Of other backends a work without a
  // future is given up then.
  void wait(std::optional<std::chrono::milliseconds> timeout = std::nullopt) const;

  // It has ended, well or not: wait() returns or throws at once.  Of what only wait() ends: it has
  // been waited for.
  bool is_completed() const;

  // The output tensors, where the backend tells them; wait() first.
  std::vector<at::Tensor> result() const;

  // What is there when the collective has ended: the list of its tensors, or its error.  Include
  // <ATen/core/ivalue.h>.  For communication hooks (distrun/comm_hook.h), which go on with it.
  // Throws where nothing is under way, and where the backend has none: "gloo" of what only wait()
  // ends.
  c10::intrusive_ptr<c10::ivalue::Future> get_future() const;

  // The global rank that a tensor has come from, of a receive from any; wait() first.
  int source_rank() const;

  // LibTorch's own: include <torch/csrc/distributed/c10d/Work.hpp>.  Null as of Work().
  const c10::intrusive_ptr<c10d::Work>& c10d_work() const;

  struct Impl;
  explicit Work(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

 private:
  std::shared_ptr<const Impl> impl_;
};

}  // namespace distrun
