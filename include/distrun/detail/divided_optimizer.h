// What checkpoints need to know about optimizers whose state is divided among ranks.
#pragma once

#include <ATen/core/Tensor.h>

namespace distrun::internal {

class DividedOptimizer {
 public:
  virtual ~DividedOptimizer() = default;
  // Whether this rank updates the parameter, and keeps its state.
  virtual bool updates(const at::Tensor& parameter) const = 0;
};

}  // namespace distrun::internal
