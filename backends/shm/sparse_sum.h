// The sum of the sparse tensors of all ranks, for the backend shm.
#pragma once

#include <ATen/core/Tensor.h>

#include "backends/shm/host/collectives.h"

namespace distrun::shm {

// Every rank gets the elements of all ranks in the order of the ranks, and adds those with the same
// index. Throws HostError, also if sizes or dtypes differ.
void sum_sparse(const at::Tensor& tensor, Collectives& group, Watch& watch);

}  // namespace distrun::shm
