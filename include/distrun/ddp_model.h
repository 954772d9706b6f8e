// A model as DdpReducer (ddp_reducer.h) takes it: named tensors.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace distrun {

// A parameter of the model.
struct DdpParameter {
  std::string name;              // For messages and DdpOptions::parameters_to_ignore.
  at::Tensor tensor;             // A leaf.  Without requires_grad it is synchronized, not reduced.
  bool sparse_gradient = false;  // Its gradients are sparse (COO).
};

// A buffer of the model.
struct DdpBuffer {
  std::string name;   // For DdpOptions::parameters_to_ignore.
  at::Tensor tensor;  // Skipped while undefined.
};

// The tensors of a model.
struct DdpModel {
  std::string name = "model";            // For messages and logging data.
  std::vector<DdpParameter> parameters;  // At least one requires a gradient.
  // Called before each forward, because a module may replace its buffers.  Null: no buffers.
  std::function<std::vector<DdpBuffer>()> buffers = nullptr;
};

}  // namespace distrun
