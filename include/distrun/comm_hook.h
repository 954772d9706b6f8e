// Communication hooks: how DistributedDataParallel reduces its gradients, where that is not to be
// the mean of all ranks.
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
// A hook is called once for each bucket in each backward, in the same order on all ranks, while
// gradients of other buckets are still computed: on the thread that computes them, which of a
// module on a GPU is one of autograd's, and of one on the CPU that which has called backward().  It
// returns a Future of the tensor that is to become the bucket's gradients, or of a list of one:
// same shape and dtype as the buffer, which it may have changed in place.  Nothing is divided
// afterwards. What it needs to know from call to call it captures (Python's `state`).
//
// From torch/csrc/distributed/c10d/comm.hpp and torch/nn/parallel/distributed.py.
#pragma once

#include <concepts>
#include <functional>

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

namespace c10d {
class GradBucket;
}
namespace c10::ivalue {
struct Future;
}

namespace distrun {

using Future = c10::intrusive_ptr<c10::ivalue::Future>;

template <class T>
concept TakesGradBucket = std::invocable<T&, c10d::GradBucket&>;
template <class T>
concept ReturnsFuture = std::same_as<std::invoke_result_t<T&, c10d::GradBucket&>, Future>;

// Anything that can be called with a bucket, returns a Future, and can be copied.
template <class T>
concept CommHookFunction = TakesGradBucket<T> && ReturnsFuture<T> && std::copy_constructible<T>;

using CommHook = std::function<Future(c10d::GradBucket&)>;

// Those that LibTorch has: BuiltinCommHookType.
enum class BuiltinCommHook {
  ALLREDUCE,      // The mean, as without a hook.
  FP16_COMPRESS,  // The mean, of gradients sent as half: half the bytes.
};

// A Future that is there already: for hooks that do not communicate.
Future completed_future(const at::Tensor& tensor);

}  // namespace distrun
