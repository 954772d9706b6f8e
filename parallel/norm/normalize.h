// Normalization by statistics of all ranks, as an autograd function.
#pragma once

#include <ATen/core/Tensor.h>

#include "distrun/group.h"
#include "parallel/norm/batch_exchange.h"

namespace distrun::internal {

// `weight` and `bias` may be undefined. Backward runs a collective if any rank's input requires a
// gradient.
at::Tensor normalize(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                     double eps, const AllBatches& batches, const Group& group);

}  // namespace distrun::internal
