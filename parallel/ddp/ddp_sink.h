// Continues the graph behind the outputs of a forward, so that something can be done as backward
// begins.  For ddp_reducer.cc.
#pragma once

#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

namespace distrun::internal {

// Copies of the outputs; `begin` is called, on the thread of backward(), as the first gradient
// reaches them.  An output that the loss does not use gets no gradient, rather than zeros: those
// would mark its parameters as used.  Outputs without a gradient are returned as they are.
//
// _DDPSink of torch/nn/parallel/distributed.py.
std::vector<at::Tensor> sink(std::vector<at::Tensor> outputs, std::function<void()> begin);

}  // namespace distrun::internal
