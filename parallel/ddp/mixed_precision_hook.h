// A communication hook that sends and sums gradients in another dtype.
#pragma once

#include <c10/core/ScalarType.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "distrun/comm_hook.h"

namespace distrun::internal {

// Converts floating-point gradients only. Divides the sum, in this dtype, by the size of the group.
//
// PyTorch source: torch/distributed/algorithms/ddp_comm_hooks/mixed_precision_hooks.py.
CommHook mixed_precision_hook(c10::intrusive_ptr<c10d::ProcessGroup> group, at::ScalarType dtype);

}  // namespace distrun::internal
