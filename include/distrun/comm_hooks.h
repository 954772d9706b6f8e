// Ready-made communication hooks (comm_hook.h) for DistributedDataParallel, as in
// torch.distributed.algorithms.ddp_comm_hooks.
//
//     ddp.register_comm_hook(Group(), fp16_compress_hook);                  // Half the traffic.
//     ddp.register_comm_hook(state, bf16_compress_wrapper(powerSGD_hook));  // power_sgd_hook.h
//
// The first argument of a hook is its state.  For the hooks in this header, the state is the group
// in which they reduce, usually the group of the DistributedDataParallel.  The hooks compute the
// mean of the gradients.  In contrast to BuiltinCommHook, they can be called by your own hook:
//
//     ddp.register_comm_hook([group](c10d::GradBucket& bucket) {
//       if (is_small(bucket)) return allreduce_hook(group, bucket);
//       return fp16_compress_hook(group, bucket);
//     });
//
// With sparse gradients, only allreduce_hook() and noop_hook() work.  The others throw
// c10::ValueError in backward().
//
// Throws: in backward(), c10::ValueError if this rank is not in the group.
// If a rank is lost, backward() throws c10::DistBackendError, which names the hook and the bucket.
// Thread safety: as comm_hook.h.
// PyTorch source: torch/distributed/algorithms/ddp_comm_hooks/default_hooks.py, debugging_hooks.py.
#pragma once

#include <utility>

#include <c10/core/ScalarType.h>

#include "distrun/comm_hook.h"
#include "distrun/group.h"

namespace distrun {

// Computes the mean of the gradients, as DistributedDataParallel does without a hook.
//
// Cost: one all_reduce() of the bucket.
Future allreduce_hook(const Group& process_group, c10d::GradBucket& bucket);

// Computes the mean, and sends the gradients as float16.  Each rank divides its gradients by the
// number of ranks after the conversion.  Values above 65504 become infinite.
//
// Cost: one all_reduce() of half the bytes of float32 gradients, and a float16 copy of the bucket.
Future fp16_compress_hook(const Group& process_group, c10d::GradBucket& bucket);

// Does the same as fp16_compress_hook(), with bfloat16.  bfloat16 has the range of float32 and
// about two to three significant digits.
//
// Cost: as fp16_compress_hook().
Future bf16_compress_hook(const Group& process_group, c10d::GradBucket& bucket);

// Leaves the gradients of each rank as they are, and sends nothing.  Use this hook to measure how
// long a training step takes without communication.  The ranks then train different models.
Future noop_hook(c10d::GradBucket& bucket);

namespace internal {

// Replaces the buffer of the bucket by a copy of this dtype, and returns the original.
at::Tensor replace_buffer(c10d::GradBucket& bucket, at::ScalarType dtype);
// When `result` completes, copies its value to `buffer`.
Future decompressed(const Future& result, const at::Tensor& buffer);

// The hook that fp16_compress_wrapper() and bf16_compress_wrapper() return.
template <class Hook>
struct CompressWrapper {
  Hook hook;             // The wrapped hook.
  at::ScalarType dtype;  // The dtype of the buffer that the wrapped hook gets.

  // Wraps a hook without a state.
  Future operator()(c10d::GradBucket& bucket) requires TakesGradBucket<Hook> {
    const at::Tensor buffer = replace_buffer(bucket, dtype);
    return decompressed(hook(bucket), buffer);
  }
  // Wraps a hook with a state.
  template <class State>
  requires TakesStateAndGradBucket<Hook, State> Future operator()(State& state,
                                                                  c10d::GradBucket& bucket) {
    const at::Tensor buffer = replace_buffer(bucket, dtype);
    return decompressed(hook(state, bucket), buffer);
  }
};

}  // namespace internal

// Returns a hook that converts the gradients to float16 and then calls `hook`.  The returned hook
// takes the same arguments as `hook`.  It converts the result back to the dtype of the gradients.
// fp16_compress_wrapper(allreduce_hook) does the same as fp16_compress_hook.
//
// Cost: the cost of `hook`, and a float16 copy of each bucket.
template <class Hook>
auto fp16_compress_wrapper(Hook hook) {
  return internal::CompressWrapper<Hook>{std::move(hook), at::kHalf};
}

// Does the same as fp16_compress_wrapper(), with bfloat16.
//
// Cost: as fp16_compress_wrapper().
template <class Hook>
auto bf16_compress_wrapper(Hook hook) {
  return internal::CompressWrapper<Hook>{std::move(hook), at::kBFloat16};
}

}  // namespace distrun
