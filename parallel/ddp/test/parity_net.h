// For the tests that hold training in C++ against Python's: the network that both train, and files
// of tensors that both read.
#pragma once

#include <filesystem>
#include <string>

#include <ATen/core/Dict.h>
#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

namespace distrun::testing {

// Which parts of the network a forward uses.
struct NetParts {
  bool extra, spare;

  // `uses`: "all", "all but spare", or "some", others in each step and on each rank.
  static NetParts of(const std::string& uses, int step, int rank) {
    if (uses == "all") return {.extra = true, .spare = true};
    return {.extra = uses == "all but spare" || (step + rank) % 3 == 0, .spare = false};
  }
};

// Small and large parameters, two dtypes, buffers, and parts that not every forward uses.
// In ddp_parity_worker.py it is Net.
struct ParityNetImpl : torch::nn::Module {
  torch::nn::Embedding words{nullptr};
  torch::nn::Linear hidden{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  torch::nn::Linear middle{nullptr}, extra{nullptr}, spare{nullptr}, last{nullptr};
  at::Tensor scale;

  explicit ParityNetImpl(bool sparse);
  at::Tensor forward(const at::Tensor& sentences, NetParts with);
};

using TensorDict = c10::Dict<std::string, at::Tensor>;

// As torch.save() and torch.load() have them.
TensorDict load(const std::filesystem::path& path);
void save(const std::filesystem::path& path, const TensorDict& tensors);

// Parameters and buffers, by name.
TensorDict state_of(const ParityNetImpl& net);
void load_state(const ParityNetImpl& net, const TensorDict& saved);

}  // namespace distrun::testing
