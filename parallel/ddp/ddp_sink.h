// Calls a function when backward starts, through a node that it adds to the outputs of a forward.
#pragma once

#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

namespace distrun::internal {

// Returns copies of the outputs. `begin` runs on the thread of backward() when the first gradient
// reaches them. An output that the loss does not use gets no gradient: zeros would mark its
// parameters as used. Outputs that require no gradient do not change.
//
// PyTorch source: _DDPSink of torch/nn/parallel/distributed.py.
std::vector<at::Tensor> sink(std::vector<at::Tensor> outputs, std::function<void()> begin);

}  // namespace distrun::internal
