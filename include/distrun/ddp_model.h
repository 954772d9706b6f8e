// The tensors of a model that ranks train together, by name: what DdpReducer (ddp_reducer.h) takes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace distrun {

struct DdpParameter {
  std::string name;
  at::Tensor tensor;             // A leaf.  One that requires no gradient is synchronized only.
  bool sparse_gradient = false;  // Its gradients are sparse (COO).
};

struct DdpBuffer {
  std::string name;
  at::Tensor tensor;
};

struct DdpModel {
  std::string name = "model";  // For logging data.
  std::vector<DdpParameter> parameters;
  // Asked before each forward, for a buffer may be another tensor each time; none: no buffers.
  std::function<std::vector<DdpBuffer>()> buffers = nullptr;
};

}  // namespace distrun
