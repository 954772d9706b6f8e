// LibTorch's NCCL backend.
//
// Separate, because c10d's header needs those of the CUDA Toolkit. A LibTorch for the CPU does not
// contain the backend: no_nccl.cc then takes the place of nccl.cc.
#pragma once

#include <optional>
#include <string>

#include "backends/group/registered_backends.h"

namespace distrun::internal {

// The backend "nccl"; empty if this build does not have it.
//
// Without a device in the request, its maker chooses the GPU of LOCAL_RANK, unless the program has
// chosen another one than the first, and throws c10::ValueError if there are fewer GPUs. It copies
// the options, which must be NcclOptions or c10d::ProcessGroupNCCL::Options, and sets their timeout
// to the request's. The backend connects, or splits the request's `split_from`, when the group
// connects eagerly or the first collective runs.
std::optional<RegisteredBackend> nccl_backend();

// Why nccl_backend() is empty, and what to do.
std::string why_no_nccl();

}  // namespace distrun::internal
