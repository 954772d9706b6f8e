// The C++ ranks of checkpoint_parity_test.py.
//
// With the run "save", they save the tensors of tensors.pt to the folder "cxx", those with several
// dimensions divided along the last one. With the run "save_shared", they save a module whose
// parameter has two names. With the run "load", they load the folders "whole" and
// "sharded", and the file "one.safetensors", which Python has written, and write what they have
// loaded.
#include <string>
#include <vector>

#include <ATen/Functions.h>
#include <torch/nn/module.h>

#include "distrun/checkpoint.h"
#include "distrun/process_group.h"
#include "parallel/test/parity_worker.h"
#include "parallel/test/tensor_files.h"

namespace distrun {
namespace {

using testing::TensorDict;

// This rank's columns: from the rank times the size over the number of ranks.
CheckpointPart part_of(const std::string& name, const at::Tensor& whole) {
  const std::int64_t columns = whole.size(-1), rank = get_rank(), ranks = get_world_size();
  const std::int64_t begin = rank * columns / ranks, end = (rank + 1) * columns / ranks;
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(whole.dim()), 0);
  offsets.back() = begin;
  return {name, whole.sizes().vec(), offsets, whole.narrow(-1, begin, end - begin)};
}

CheckpointState state_of(const TensorDict& tensors) {
  CheckpointState state;
  for (const auto& one : tensors) {
    if (one.value().dim() < 2) {
      state.add(one.key(), one.value());
    } else {
      state.add_part(part_of(one.key(), one.value()));
    }
  }
  return state;
}

TensorDict zeros_like(const TensorDict& tensors) {
  TensorDict zeros;
  for (const auto& one : tensors) zeros.insert(one.key(), at::zeros_like(one.value()));
  return zeros;
}

}  // namespace

namespace testing {

void run_checkpoint_parity(const ParityRun& run) {
  const TensorDict tensors = load(run.folder / "tensors.pt");
  if (run.name == "save_shared") {
    torch::nn::Module net;
    for (const char* const name : {"embedding", "last"}) {
      net.register_parameter(name, tensors.at("net.weight"));
    }
    CheckpointState state;
    state.add_module(net);
    return save_checkpoint(run.folder / "cxx", state);
  }
  if (run.name == "save") return save_checkpoint(run.folder / "cxx", state_of(tensors));
  for (const std::string name : {"whole", "sharded", "one.safetensors"}) {
    const TensorDict loaded = zeros_like(tensors);
    CheckpointState state = state_of(loaded);  // Parts are views of the tensors.
    load_checkpoint(run.folder / name, state);
    save(run.folder / (name + ".rank" + std::to_string(get_rank()) + ".pt"), loaded);
  }
}

}  // namespace testing
}  // namespace distrun
