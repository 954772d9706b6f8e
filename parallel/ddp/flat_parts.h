// The parts of a flat tensor, such as a bucket of gradients, as tensors like its parameters.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

namespace distrun::internal {

// Returns a view for each parameter, in this order. A view has the sizes of its parameter, and the
// strides that c10d's Reducer gives its gradient: those of the parameter if its memory is dense,
// and otherwise those of a contiguous tensor.
//
// Shapes: `flat` is 1-D and contiguous, with as many elements as all parameters.
std::vector<at::Tensor> parts_like(const at::Tensor& flat,
                                   const std::vector<at::Tensor>& parameters);

}  // namespace distrun::internal
