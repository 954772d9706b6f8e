// Differences between LibTorch versions in c10d::Backend.
//
// LibTorch 2.14 renames five functions. Each name calls the other, and groups may call either. A
// backend overrides only the name that the macro stands for:
//
//     WorkPtr DISTRUN_ALL_GATHER_SINGLE(at::Tensor& output, at::Tensor& input, …) override;
//
// If it overrode both, the two would call each other forever.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/headeronly/version.h>

// 1 for this version of LibTorch and newer ones.
#define DISTRUN_LIBTORCH_SINCE(major, minor) \
  (TORCH_VERSION_MAJOR > (major) ||          \
   (TORCH_VERSION_MAJOR == (major) && TORCH_VERSION_MINOR >= (minor)))

#if DISTRUN_LIBTORCH_SINCE(2, 14)
#define DISTRUN_ALL_GATHER_SINGLE all_gather_single
#define DISTRUN_ALL_GATHER_SINGLE_COALESCED all_gather_single_coalesced
#define DISTRUN_REDUCE_SCATTER_SINGLE reduce_scatter_single
#define DISTRUN_REDUCE_SCATTER_SINGLE_COALESCED reduce_scatter_single_coalesced
#define DISTRUN_ALL_TO_ALL_SINGLE all_to_all_single
#else
#define DISTRUN_ALL_GATHER_SINGLE _allgather_base
#define DISTRUN_ALL_GATHER_SINGLE_COALESCED allgather_into_tensor_coalesced
#define DISTRUN_REDUCE_SCATTER_SINGLE _reduce_scatter_base
#define DISTRUN_REDUCE_SCATTER_SINGLE_COALESCED reduce_scatter_tensor_coalesced
#define DISTRUN_ALL_TO_ALL_SINGLE alltoall_base
#endif

namespace distrun::internal {

// Call it once, after the ranks have connected. Since LibTorch 2.14 every rank starts at 0, and the
// call only warns.
inline void start_sequence_numbers(c10d::Backend& backend) {
#if DISTRUN_LIBTORCH_SINCE(2, 14)
  static_cast<void>(backend);
#else
  backend.setSequenceNumberForGroup();
#endif
}

}  // namespace distrun::internal
