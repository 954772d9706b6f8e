// For tests that compare training in C++ and Python: the network that both use.
#pragma once

#include <string>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include "parallel/test/tensor_files.h"

namespace distrun::testing {

struct NetParts {
  bool extra, spare;

  // `uses` is "all", "all but spare", or "some", which differ by step and rank.
  static NetParts of(const std::string& uses, int step, int rank) {
    if (uses == "all") return {.extra = true, .spare = true};
    return {.extra = uses == "all but spare" || (step + rank) % 3 == 0, .spare = false};
  }
};

// Has small and large parameters, two dtypes, buffers, and parts that not every forward uses.
// ddp_parity_worker.py has the same Net.
struct ParityNetImpl : torch::nn::Module {
  torch::nn::Embedding words{nullptr};
  torch::nn::Linear hidden{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  torch::nn::Linear middle{nullptr}, extra{nullptr}, spare{nullptr}, last{nullptr};
  at::Tensor scale;

  explicit ParityNetImpl(bool sparse);
  at::Tensor forward(const at::Tensor& sentences, NetParts with);
};

TensorDict state_of(const ParityNetImpl& net);
void load_state(const ParityNetImpl& net, const TensorDict& saved);

}  // namespace distrun::testing
