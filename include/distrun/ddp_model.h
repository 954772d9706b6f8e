// The model that is passed to a DdpReducer (ddp_reducer.h): named tensors.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace distrun {

// A parameter of the model.
struct DdpParameter {
  std::string name;  // For messages and DdpOptions::parameters_to_ignore.
  // Must be a leaf.  If it does not require a gradient, DdpReducer only copies its values from rank
  // 0, at construction and at the end of a Join.
  at::Tensor tensor;
  bool sparse_gradient = false;  // Its gradients are sparse (COO).
};

// A buffer of the model.
struct DdpBuffer {
  std::string name;   // For DdpOptions::parameters_to_ignore.
  at::Tensor tensor;  // Ignored while it is undefined.
};

// The tensors of a model.
struct DdpModel {
  std::string name = "model";            // For messages and logging data.
  std::vector<DdpParameter> parameters;  // At least one requires a gradient.
  // Returns the current buffers: a module may replace its buffers.  DdpReducer calls it in its
  // constructor, before each forward that broadcasts buffers, and at the end of a Join.  Null: no
  // buffers.
  std::function<std::vector<DdpBuffer>()> buffers = nullptr;
};

}  // namespace distrun
