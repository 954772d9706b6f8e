// Options of the backend "nccl", which LibTorch's CUDA builds contain.
//
//     const auto options = c10::make_intrusive<NcclOptions>();
//     options->is_high_priority_stream = true;
//     init_process_group({.backend = "nccl", .backend_options = options});
//
// This header needs no header of CUDA.  A program that includes CUDA's headers can also pass
// c10d::ProcessGroupNCCL::Options, which has all options of LibTorch.
// PyTorch source: torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp (Options).
#pragma once

#include <optional>

#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace distrun {

// The options.  Pass a pointer to an NcclOptions as InitOptions::backend_options or
// GroupOptions::backend_options.  The group copies the options when it is created.  An option that
// is not set has NCCL's default.
struct NcclOptions : c10d::Backend::Options {
  // Sets the defaults.
  NcclOptions() : Options("nccl") {}

  // If true, collectives run on CUDA streams of high priority, so that they overlap better with
  // the computation.
  bool is_high_priority_stream = false;

  // ncclConfig_t: the numbers of thread blocks that a collective uses on the GPU, at least and at
  // most.
  std::optional<int> min_ctas = std::nullopt;
  std::optional<int> max_ctas = std::nullopt;
  // ncclConfig_t: the number of thread blocks in a cluster, 0 to 8.
  std::optional<int> cga_cluster_size = std::nullopt;
  // ncclConfig_t: whether a call of NCCL returns only when it is done.  With false, LibTorch polls.
  std::optional<bool> blocking = std::nullopt;
};

}  // namespace distrun
