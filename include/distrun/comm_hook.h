// A communication hook is a function that reduces gradients instead of DistributedDataParallel.
// For example, a hook can compress the gradients before it sends them.
//
//     #include <ATen/core/ivalue.h>
//     #include <torch/csrc/distributed/c10d/comm.hpp>       // GradBucket
//     #include "distrun/collectives.h"
//     #include "distrun/process_group.h"
//     using namespace distrun;
//
//     ddp.register_comm_hook([group, size = get_world_size(group)](c10d::GradBucket& bucket) {
//       const Work sum = all_reduce(bucket.getBuffer(), ReduceOp::SUM,
//                                   {.group = group, .async_op = true});
//       return sum.get_future()->then(
//           [size](c10::ivalue::Future& done) -> c10::IValue {
//             return done.value().toTensorVector()[0] / size;
//           },
//           c10::TensorType::get());
//     });
//
// A bucket is a list of gradients that are reduced together.  Each backward() calls the hook once
// for each bucket, in the same order on all ranks.  The hook runs while backward() still computes
// the gradients of other buckets.  The hook returns a Future of a tensor, or of a list of one
// tensor.  The values of this tensor become the bucket's gradients.  DistributedDataParallel does
// not divide these values by the number of ranks.  The hook may change the bucket's buffer in
// place.  A hook can capture its state, as in the example, or take it as its first argument, as in
// Python.  comm_hooks.h and power_sgd_hook.h have ready-made hooks.
//
// Shapes: the returned tensor has the sizes, dtype and device of the bucket's buffer.
// Thread safety: for a module on a GPU, the hook runs on a thread of autograd.  For a module on the
// CPU, the hook runs on the thread that calls backward().
// Cost: backward() does not continue until the hook returns.  To let backward() continue, start the
// communication with `async_op` and return its future, as in the example.
// PyTorch source: torch/csrc/distributed/c10d/comm.hpp, torch/nn/parallel/distributed.py.
#pragma once

#if __cplusplus < 202002L
#error "distrun needs C++20: compile with -std=c++20"
#endif

#include <concepts>
#include <functional>
#include <type_traits>
#include <utility>

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

namespace c10d {
class GradBucket;
}
namespace c10::ivalue {
struct Future;
}

namespace distrun {

// The result of a hook.  Its value is the reduced gradients.
using Future = c10::intrusive_ptr<c10::ivalue::Future>;

// Satisfied if `T` can be called with a bucket.
template <class T>
concept TakesGradBucket = std::invocable<T&, c10d::GradBucket&>;
// Satisfied if a call of `T` with a bucket returns a Future.
template <class T>
concept ReturnsFuture = std::same_as<std::invoke_result_t<T&, c10d::GradBucket&>, Future>;

// Satisfied if `T` is a hook: it takes a bucket, returns a Future and can be copied.
template <class T>
concept CommHookFunction = TakesGradBucket<T> && ReturnsFuture<T> && std::copy_constructible<T>;

// Satisfied if `T` can be called with a `State` and a bucket.
template <class T, class State>
concept TakesStateAndGradBucket = std::invocable<T&, State&, c10d::GradBucket&> &&
    std::same_as<std::invoke_result_t<T&, State&, c10d::GradBucket&>, Future>;
// Satisfied if `T` is a hook with a state: it takes a `State` and a bucket, returns a Future, and
// both can be copied.
template <class T, class State>
concept StatefulCommHookFunction = TakesStateAndGradBucket<T, State> &&
    std::copy_constructible<T> && std::copy_constructible<State>;

// A type that can contain any hook.
using CommHook = std::function<Future(c10d::GradBucket&)>;

// The hooks that LibTorch provides: c10d::BuiltinCommHookType.
enum class BuiltinCommHook {
  // Computes the mean of the gradients, as DistributedDataParallel does without a hook.
  ALLREDUCE,
  // Computes the mean, and sends gradients as float16.  The traffic of float32 gradients is then
  // half as large.  Each bucket is converted to float16 and back.
  FP16_COMPRESS,
};

// Returns a hook that calls `hook` with `state`.  The state is copied once, into the returned hook.
template <class State, class Hook>
requires StatefulCommHookFunction<Hook, State> CommHook with_state(State state, Hook hook) {
  return [state = std::move(state), hook = std::move(hook)](c10d::GradBucket& bucket) mutable {
    return hook(state, bucket);
  };
}

// Returns a completed Future whose value is `tensor`.  Use it in hooks that do not communicate.
Future completed_future(const at::Tensor& tensor);

}  // namespace distrun
