// The C++ ranks of hooks_parity_test.py; hooks_parity_worker.py trains the same.
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ops/tanh.h>
#include <ATen/ops/tensor.h>
#include <nlohmann/json.hpp>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include "distrun/comm_hooks.h"
#include "distrun/distributed_data_parallel.h"
#include "distrun/model_averager.h"
#include "distrun/post_local_sgd_hook.h"
#include "distrun/post_local_sgd_optimizer.h"
#include "distrun/power_sgd_hook.h"
#include "distrun/process_group.h"
#include "parallel/test/parity_worker.h"
#include "parallel/test/tensor_files.h"

namespace distrun {
namespace {

using nlohmann::json;
using testing::TensorDict;

// hooks_parity_worker.py has the same Net.
struct HooksNetImpl : torch::nn::Module {
  torch::nn::Conv1d first{nullptr};
  torch::nn::Linear middle0{nullptr}, middle1{nullptr}, wide{nullptr};
  torch::nn::Linear middle2{nullptr}, middle3{nullptr}, last{nullptr};
  HooksNetImpl() {
    first = register_module("first", torch::nn::Conv1d(3, 24, 3));
    middle0 = register_module("middle0", torch::nn::Linear(24, 24));
    middle1 = register_module("middle1", torch::nn::Linear(24, 24));
    wide = register_module("wide", torch::nn::Linear(24, 40));
    middle2 = register_module("middle2", torch::nn::Linear(40, 24));
    middle3 = register_module("middle3", torch::nn::Linear(24, 24));
    last = register_module("last", torch::nn::Linear(24, 2));
  }
  at::Tensor forward(const at::Tensor& inputs) {
    at::Tensor x = at::tanh(first(inputs)).mean(2);
    x = at::tanh(middle1(at::tanh(middle0(x))));
    x = at::tanh(middle2(at::tanh(wide(x))));
    return last(at::tanh(middle3(x)));
  }
};

PowerSGDOptions power_sgd_options(const json& state) {
  PowerSGDOptions options;
  options.matrix_approximation_rank = state.value("matrix_approximation_rank", 1);
  options.start_powerSGD_iter = state.value("start_powerSGD_iter", 1000);
  options.min_compression_rate = state.value("min_compression_rate", 2.0);
  options.use_error_feedback = state.value("use_error_feedback", true);
  options.warm_start = state.value("warm_start", true);
  options.orthogonalization_epsilon = state.value("orthogonalization_epsilon", 0.0);
  options.random_seed = state.value("random_seed", 0U);
  options.batch_tensors_with_same_shape = state.value("batch_tensors_with_same_shape", false);
  return options;
}

PostLocalSGDState post_local_state(const json& state) {
  const int ranks = state.at("subgroup").get<int>();
  return PostLocalSGDState(
      {.subgroup = new_subgroups(ranks == 0 ? get_world_size() : ranks).own,
       .start_localSGD_iter = state.at("start_localSGD_iter").get<int>(),
       .post_local_gradient_allreduce = state.value("post_local_gradient_allreduce", true)});
}

std::shared_ptr<ModelAverager> averager_of(const json& averager) {
  std::vector<std::pair<std::int64_t, int>> sizes;
  for (const auto& [period, ranks] :
       averager.at("periods").get<std::vector<std::pair<std::int64_t, int>>>()) {
    sizes.emplace_back(period, ranks == 0 ? get_world_size() : ranks);
  }
  const auto warmup_steps = averager.at("warmup_steps").get<std::int64_t>();
  if (sizes.size() == 1) {
    return std::make_shared<PeriodicModelAverager>(
        PeriodicModelAveragerOptions{.period = sizes[0].first, .warmup_steps = warmup_steps});
  }
  return std::make_shared<HierarchicalModelAverager>(
      HierarchicalModelAveragerOptions{.period_group_size = sizes, .warmup_steps = warmup_steps});
}

template <class State, class Hook>
CommHook wrapped(const std::string& wrapper, const State& state, Hook hook) {
  if (wrapper == "fp16") return with_state(state, fp16_compress_wrapper(hook));
  if (wrapper == "bf16") return with_state(state, bf16_compress_wrapper(hook));
  return with_state(state, hook);
}

CommHook hook_of(const json& variant, const std::optional<PowerSGDState>& state) {
  const std::string name = variant.at("hook");
  const std::string wrapper = variant.at("wrapper");
  if (name == "allreduce_hook") return wrapped(wrapper, Group(), allreduce_hook);
  if (name == "fp16_compress_hook") return wrapped(wrapper, Group(), fp16_compress_hook);
  if (name == "bf16_compress_hook") return wrapped(wrapper, Group(), bf16_compress_hook);
  if (name == "powerSGD_hook") return wrapped(wrapper, *state, powerSGD_hook);
  if (name == "post_localSGD_hook") {
    return with_state(post_local_state(variant.at("state")), post_localSGD_hook);
  }
  TORCH_CHECK_VALUE(name == "noop_hook", "no hook of this program: ", name);
  return noop_hook;
}

void train_hook(const json& variant, const testing::ParityRun& run) {
  const auto net = std::make_shared<HooksNetImpl>();
  const TensorDict start = testing::load(run.folder / "start.pt");
  {
    const at::NoGradGuard no_grad;
    for (const auto& one : net->named_parameters()) one.value().copy_(start.at(one.key()));
  }
  DistributedDataParallel ddp(net, {.bucket_cap_mb = variant.at("bucket_cap_mb").get<double>()});
  std::optional<PowerSGDState> state;
  if (variant.at("hook") == "powerSGD_hook") {
    state = PowerSGDState(power_sgd_options(variant.at("state")));
  }
  ddp.register_comm_hook(hook_of(variant, state));
  const auto optimizer = std::make_shared<torch::optim::SGD>(
      ddp.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  std::optional<PostLocalSGDOptimizer> averaging;
  const json& averager = variant.at("averager");
  if (!averager.is_null()) averaging.emplace(optimizer, averager_of(averager));
  const at::Tensor inputs = testing::load(run.folder / "data.pt").at("inputs");
  std::vector<double> losses;
  for (int step = 0; step < inputs.size(0); ++step) {
    optimizer->zero_grad();
    const at::Tensor loss = (ddp(inputs[step][get_rank()]) - 1).pow(2).mean();
    loss.backward();
    losses.push_back(loss.item<double>());
    if (averaging) {
      averaging->step();
    } else {
      optimizer->step();
    }
  }
  TensorDict results;
  for (const auto& one : net->named_parameters()) results.insert(one.key(), one.value().detach());
  results.insert("losses", at::tensor(losses));
  if (state) {
    const CompressionStats stats = state->compression_stats();
    results.insert("stats", at::tensor({static_cast<double>(state->iter()), stats.compress_rate,
                                        static_cast<double>(stats.numel_before_compression),
                                        static_cast<double>(stats.numel_after_compression)}));
  }
  const std::string name = variant.at("name");
  testing::save(run.folder / (run.name + "." + name + "." + std::to_string(get_rank()) + ".pt"),
                results);
}

}  // namespace

void testing::run_hooks_parity(const ParityRun& run) {
  std::ifstream file(run.folder / "variants.json");
  for (const auto& variant : json::parse(file)) train_hook(variant, run);
}

}  // namespace distrun
