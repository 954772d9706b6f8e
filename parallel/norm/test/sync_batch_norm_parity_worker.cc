// The C++ ranks of sync_batch_norm_parity_test.py, which trains the same in one process.
#include <cstdint>
#include <fstream>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include <ATen/ops/relu.h>
#include <ATen/ops/tensor.h>
#include <nlohmann/json.hpp>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include "distrun/collectives.h"
#include "distrun/distributed_data_parallel.h"
#include "distrun/process_group.h"
#include "distrun/sync_batch_norm.h"
#include "parallel/test/parity_worker.h"
#include "parallel/test/tensor_files.h"

namespace distrun {
namespace {

using nlohmann::json;
using testing::TensorDict;

constexpr int kNormChannels = 4, kNormWidth = 5;

torch::nn::BatchNormOptions norm_options(const json& variant, std::int64_t channels) {
  const json& momentum = variant.at("momentum");
  return torch::nn::BatchNormOptions(channels)
      .momentum(momentum.is_null() ? std::nullopt : std::optional(momentum.get<double>()))
      .affine(variant.at("affine").get<bool>())
      .track_running_stats(variant.at("track_running_stats").get<bool>());
}

struct NormedNet : torch::nn::Module {
  SyncBatchNorm first, second;
  torch::nn::Conv2d conv;
  torch::nn::Linear last;
  explicit NormedNet(const json& variant)
      : first(register_module("first", SyncBatchNorm(norm_options(variant, kNormChannels)))),
        second(register_module("second", SyncBatchNorm(norm_options(variant, kNormWidth)))),
        conv(register_module("conv", torch::nn::Conv2d(kNormChannels, kNormWidth, 2))),
        last(register_module("last", torch::nn::Linear(kNormWidth, 2))) {
    to(at::kDouble);
  }
  at::Tensor forward(const at::Tensor& x) {
    return last(at::relu(second(conv(first(x)))).mean({2, 3}));
  }
};

TensorDict train_normed(const json& variant, const TensorDict& start, const at::Tensor& inputs,
                        const std::vector<std::int64_t>& rows) {
  const auto net = std::make_shared<NormedNet>(variant);
  {
    const at::NoGradGuard no_grad;
    for (const auto& one : net->named_parameters()) one.value().copy_(start.at(one.key()));
  }
  DistributedDataParallel ddp(net);
  torch::optim::SGD optimizer(ddp.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  const auto begin = std::accumulate(rows.begin(), rows.begin() + get_rank(), std::int64_t{0});
  const std::int64_t own = rows.at(static_cast<std::size_t>(get_rank()));
  std::vector<double> losses;
  for (std::int64_t step = 0; step < inputs.size(0); ++step) {
    optimizer.zero_grad();
    const at::Tensor output = ddp(inputs[step].narrow(0, begin, own));
    // This rank's part of the mean over all outputs.
    const auto outputs = static_cast<double>(inputs.size(1) * output.size(1));
    const at::Tensor loss = (output - 1).pow(2).sum() / outputs;
    (loss * get_world_size()).backward();
    const at::Tensor sum = loss.detach().clone();
    all_reduce(sum);
    losses.push_back(sum.item<double>());
    optimizer.step();
  }
  net->eval();
  TensorDict results;
  results.insert("losses", at::tensor(losses, at::kDouble));
  results.insert("evaluated", net->forward(inputs[0]).detach());
  for (const auto& one : net->named_parameters()) results.insert(one.key(), one.value().detach());
  for (const auto& one : net->named_buffers()) results.insert(one.key(), one.value());
  return results;
}

}  // namespace

void testing::run_sync_batch_norm_parity(const ParityRun& run) {
  const TensorDict start = load(run.folder / "start.pt");
  const at::Tensor inputs = load(run.folder / "inputs.pt").at("inputs");
  const json cases = json::parse(std::ifstream(run.folder / "variants.json"));
  const auto rows = cases.at("rows").get<std::vector<std::int64_t>>();
  for (const json& variant : cases.at("variants")) {
    const TensorDict results = train_normed(variant, start, inputs, rows);
    if (get_rank() != 0) continue;
    save(run.folder / (run.name + "." + variant.at("name").get<std::string>() + ".pt"), results);
  }
}

}  // namespace distrun
