// Calls c10d's operators without their autograd kernels, which only prepare a warning for a
// backward() through them and take as long as the rest of a small collective.
//
//     const BelowAutograd direct(tensor);   // Does nothing if the tensor requires a gradient.
//     group->allreduce(…);
#pragma once

#include <optional>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>

namespace distrun::internal {

class BelowAutograd {
 public:
  template <class... Tensors>
  explicit BelowAutograd(const Tensors&... tensors) {
    if ((!tensors.requires_grad() && ...)) guard_.emplace();
  }
  BelowAutograd(const BelowAutograd&) = delete;
  BelowAutograd& operator=(const BelowAutograd&) = delete;

 private:
  std::optional<at::AutoDispatchBelowAutograd> guard_;
};

}  // namespace distrun::internal
