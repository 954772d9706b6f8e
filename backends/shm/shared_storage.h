// Moves tensors into memory that the ranks of a host map.
#pragma once

#include <ATen/core/Tensor.h>

#include "backends/shm/host/shared_blocks.h"
#include "distrun/result.h"

namespace distrun::shm {

// Does nothing to a tensor that is in a block already, or too small to be reduced in place. The
// tensor keeps its contents; addresses of its data become invalid.
Result<void> move_to_block(const at::Tensor& tensor, SharedBlocks& blocks);

}  // namespace distrun::shm
