// The C++ ranks of pipeline_parity_test.py; pipeline_parity_worker.py trains the same.
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tanh.h>
#include <nlohmann/json.hpp>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/optim/adam.h>

#include "distrun/pipeline.h"
#include "distrun/process_group.h"
#include "parallel/test/parity_worker.h"
#include "parallel/test/tensor_files.h"

namespace distrun {
namespace {

using nlohmann::json;
using testing::TensorDict;

constexpr int kPipelineWidth = 6, kPipelineSteps = 5;

struct ParityStageImpl : torch::nn::Module {
  torch::nn::LayerNorm norm =
      register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({kPipelineWidth})));
  torch::nn::Linear linear =
      register_module("linear", torch::nn::Linear(kPipelineWidth, kPipelineWidth));

  at::Tensor forward(const at::Tensor& x) { return at::tanh(linear(norm(x))) + x; }
};
TORCH_MODULE(ParityStage);

template <class Schedule>
TensorDict train_pipeline(const json& variant, const TensorDict& state, const TensorDict& data) {
  const int rank = get_rank();
  const at::Tensor inputs = data.at("inputs"), targets = data.at("targets");
  const ParityStage net;
  {
    const at::NoGradGuard no_grad;
    for (const auto& one : net->named_parameters()) {
      one.value().copy_(state.at(std::to_string(rank) + "/" + one.key()));
    }
  }
  const PipelineStage stage(net, rank, get_world_size());
  const bool is_mean = variant.at("reduction") == "mean";
  Schedule schedule(stage, variant.at("microbatches").get<int>(),
                    [&](const at::Tensor& output, const at::Tensor& target) {
                      return at::mse_loss(output, target,
                                          is_mean ? at::Reduction::Mean : at::Reduction::Sum);
                    },
                    {.scale_grads = is_mean});
  torch::optim::Adam optimizer(net->parameters(), torch::optim::AdamOptions(0.02));
  TensorDict results;
  for (int step = 0; step < kPipelineSteps; ++step) {
    optimizer.zero_grad();
    const PipelineResult result = schedule.step({.args = {inputs[step]}, .target = targets[step]});
    const std::string number = std::to_string(step);
    for (const auto& one : net->named_parameters()) {
      results.insert(one.key() + ".grad" + number, one.value().grad().clone());
    }
    if (stage.is_last()) {
      results.insert("losses" + number, at::stack(result.losses));
      results.insert("output" + number, result.outputs.at(0));
    }
    optimizer.step();
  }
  const PipelineResult result = schedule.eval({.args = {inputs[0]}, .target = targets[0]});
  if (stage.is_last()) results.insert("eval", result.outputs.at(0));
  for (const auto& one : net->named_parameters()) results.insert(one.key(), one.value().detach());
  return results;
}

}  // namespace

namespace testing {

void run_pipeline_parity(const ParityRun& run) {
  const TensorDict state = load(run.folder / "state.pt"), data = load(run.folder / "data.pt");
  for (const json& variant : json::parse(std::ifstream(run.folder / "variants.json"))) {
    const bool is_gpipe = variant.at("schedule") == "gpipe";
    const auto train = is_gpipe ? train_pipeline<ScheduleGPipe> : train_pipeline<Schedule1F1B>;
    save(run.folder / (run.name + "." + variant.at("name").get<std::string>() + "." +
                       std::to_string(get_rank()) + ".pt"),
         train(variant, state, data));
  }
}

}  // namespace testing
}  // namespace distrun
