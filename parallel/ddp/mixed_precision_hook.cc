#include "parallel/ddp/mixed_precision_hook.h"

#include <utility>
#include <vector>

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <torch/csrc/distributed/c10d/comm.hpp>

namespace distrun::internal {

CommHook mixed_precision_hook(c10::intrusive_ptr<c10d::ProcessGroup> group, at::ScalarType dtype) {
  return [group = std::move(group), dtype](c10d::GradBucket& bucket) -> Future {
    const at::Tensor& gradients = bucket.getBuffer();  // May be complex numbers.
    std::vector<at::Tensor> converted = {gradients.is_floating_point() ? gradients.to(dtype)
                                                                       : gradients};
    const Future sum = group->allreduce(converted)->getFuture();
    return sum->then(
        [buffer = bucket.getBuffer(), size = group->getSize()](c10::ivalue::Future& done) {
          return c10::IValue(buffer.copy_(done.value().toTensorVector().at(0).div_(size)));
        },
        c10::TensorType::get());
  };
}

}  // namespace distrun::internal
