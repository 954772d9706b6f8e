// The C++ ranks of fsdp_parity_test.py; fsdp_parity_worker.py trains the same.
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ops/relu.h>
#include <ATen/ops/tensor.h>
#include <nlohmann/json.hpp>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/optim/adam.h>

#include "distrun/fully_sharded_data_parallel.h"
#include "distrun/process_group.h"
#include "parallel/test/parity_worker.h"
#include "parallel/test/tensor_files.h"

namespace distrun {
namespace {

using nlohmann::json;
using testing::TensorDict;

constexpr int kWidth = 10, kBlocks = 3, kSteps = 10;

struct BlockImpl : torch::nn::Module {
  torch::nn::LayerNorm norm{nullptr};
  torch::nn::Linear wide{nullptr}, narrow{nullptr};
  BlockImpl() {
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWidth})));
    wide = register_module("wide", torch::nn::Linear(kWidth, 3 * kWidth));
    narrow = register_module("narrow", torch::nn::Linear(3 * kWidth, kWidth));
  }
  at::Tensor forward(const at::Tensor& x) { return x + narrow(at::relu(wide(norm(x)))); }
};
TORCH_MODULE(Block);

struct NetImpl : torch::nn::Module {
  torch::nn::Linear first{nullptr}, last{nullptr};
  std::vector<std::shared_ptr<FullyShardedDataParallel<Block>>> blocks;
  explicit NetImpl(const FsdpOptions& options) {
    first = register_module("first", torch::nn::Linear(5, kWidth));
    for (int i = 0; i < kBlocks; ++i) {
      blocks.push_back(
          register_module("block" + std::to_string(i),
                          std::make_shared<FullyShardedDataParallel<Block>>(Block(), options)));
    }
    last = register_module("last", torch::nn::Linear(kWidth, 2));
  }
  at::Tensor forward(at::Tensor x) {
    x = first(x);
    for (const auto& block : blocks) x = block->forward(x);
    return last(x);
  }
};

TensorDict train(const json& variant, const FsdpState& start, const at::Tensor& inputs) {
  FsdpOptions inner, outer;
  inner.reshard_after_forward = variant.at("reshard_after_forward").get<bool>();
  if (!variant.at("param_dtype").get<std::string>().empty()) {
    inner.mp_policy = {.param_dtype = at::kBFloat16, .reduce_dtype = at::kFloat};
  }
  outer.mp_policy = inner.mp_policy;
  outer.mp_policy.output_dtype = at::kFloat;
  FullyShardedDataParallel fsdp(std::make_shared<NetImpl>(inner), outer);
  fsdp.load_full_state_dict(start);
  torch::optim::Adam optimizer(fsdp.parameters(), torch::optim::AdamOptions(0.01));
  const int sync_every = variant.at("sync_every").get<int>();
  const double max_norm = variant.at("max_norm").get<double>();
  std::vector<double> losses;
  const auto backward = [&](int step) {
    const at::Tensor loss = (fsdp(inputs[step][get_rank()]) - 1).pow(2).mean();
    loss.backward();
    losses.push_back(loss.item<double>());
  };
  for (int step = 0; step < kSteps; ++step) {
    if ((step + 1) % sync_every != 0) {
      const auto alone = fsdp.no_sync();
      backward(step);
      continue;
    }
    backward(step);
    if (max_norm > 0) fsdp.clip_grad_norm_(max_norm);
    optimizer.step();
    optimizer.zero_grad();
  }
  TensorDict results;
  results.insert("losses", at::tensor(losses, at::kDouble));
  for (const auto& one : fsdp.full_state_dict()) results.insert(one.key(), one.value());
  return results;
}

}  // namespace

namespace testing {

void run_fsdp_parity(const ParityRun& run) {
  FsdpState start;
  for (const auto& one : load(run.folder / "start.pt")) start.insert(one.key(), one.value());
  const at::Tensor inputs = load(run.folder / "inputs.pt").at("inputs");
  for (const json& variant : json::parse(std::ifstream(run.folder / "variants.json"))) {
    const TensorDict results = train(variant, start, inputs);
    if (get_rank() != 0) continue;
    save(run.folder / (run.name + "." + variant.at("name").get<std::string>() + ".pt"), results);
  }
}

}  // namespace testing
}  // namespace distrun
