// Adds a node to the outputs of a forward, which calls a function when backward starts.  For
// ddp_reducer.cc.
#pragma once

#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

namespace distrun::internal {

// Returns copies of the outputs.  `begin` runs on the thread of backward() when the first gradient
// reaches them.  An output that the loss does not use gets no gradient, because zeros would mark
// its parameters as used.  Outputs that require no gradient are returned unchanged.
//
// PyTorch source: _DDPSink of torch/nn/parallel/distributed.py.
std::vector<at::Tensor> sink(std::vector<at::Tensor> outputs, std::function<void()> begin);

}  // namespace distrun::internal
