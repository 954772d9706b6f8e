// Collectives that a backend completes on the caller's thread, without a c10d::Work. To pass a
// small tensor through c10d takes longer than to reduce it in shared memory.
//
// Errors: those that the backend's works throw. Thread safety: any thread.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

namespace distrun::internal {

class DirectCalls {
 public:
  virtual ~DirectCalls() = default;

  // Each completes the collective, or does nothing and returns false. Each calls `begin` before it
  // sleeps for other ranks. If the call fails earlier, `begin` is not called. It returns
  // false if earlier calls have not run yet. It also returns false for arguments that are not
  // valid, for which c10d's way has the error. The tensors are dense, contiguous, real and on the
  // CPU.
  using Begin = c10::function_ref<void()>;
  virtual bool barrier_now(Begin begin) = 0;
  virtual bool broadcast_now(const at::Tensor& tensor, int root, Begin begin) = 0;
  virtual bool all_reduce_now(const at::Tensor& tensor, const c10d::ReduceOp& op, Begin begin) = 0;
  virtual bool all_gather_now(const at::Tensor& output, const at::Tensor& input, Begin begin) = 0;
  virtual bool reduce_scatter_now(const at::Tensor& output, const at::Tensor& input,
                                  const c10d::ReduceOp& op, Begin begin) = 0;
  // Of equal parts.
  virtual bool all_to_all_now(const at::Tensor& output, const at::Tensor& input, Begin begin) = 0;
};

}  // namespace distrun::internal
