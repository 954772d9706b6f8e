// The sum of the sparse tensors of all ranks, for the backend shm.
#pragma once

#include <ATen/core/Tensor.h>

#include "backends/shm/host/host_collectives.h"

namespace distrun::shm {

// Throws c10::ValueError, which names the call, unless it is a sparse COO tensor in the memory of
// the CPU.
void check_sparse(const char* call, const at::Tensor& tensor);

// Every rank gets the elements of all ranks in the order of the ranks, and adds those with the same
// index. Throws HostError, also if sizes or dtypes differ.
void sum_sparse(at::Tensor tensor, HostCollectives& group, Watch& watch);

}  // namespace distrun::shm
