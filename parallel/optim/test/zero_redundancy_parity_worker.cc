// The C++ ranks of zero_redundancy_parity_test.py; zero_redundancy_parity_worker.py trains the
// same.
#include <cstddef>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ops/tensor.h>
#include <nlohmann/json.hpp>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include "distrun/process_group.h"
#include "distrun/zero_redundancy_optimizer.h"
#include "parallel/test/parity_worker.h"
#include "parallel/test/tensor_files.h"

namespace distrun {
namespace {

using nlohmann::json;
using testing::TensorDict;

constexpr int kZeroSteps = 6, kStepsBeforeAdding = 3;

template <class Optimizer, class Options>
TensorDict train_divided(const json& variant, const TensorDict& start, const TensorDict& gradients,
                         const Options& options) {
  std::vector<at::Tensor> parameters;
  const auto count = start.size();
  for (std::size_t i = 0; i < count; ++i) {
    parameters.push_back(start.at(std::to_string(i)).clone().requires_grad_());
  }
  std::vector<torch::optim::OptimizerParamGroup> groups;
  auto first = parameters.begin();
  for (const int size : variant.at("groups")) {
    groups.emplace_back(std::vector<at::Tensor>(first, first + size));
    first += size;
    if (groups.size() == 1) continue;
    Options its = options;
    its.lr(0.02 * static_cast<double>(groups.size()));
    groups.back().set_options(std::make_unique<Options>(its));
  }
  const auto later = groups.end() - variant.at("added").get<int>();
  ZeroRedundancyOptimizer<Optimizer> optimizer(
      std::vector<torch::optim::OptimizerParamGroup>(groups.begin(), later), options,
      {.parameters_as_bucket_view = variant.at("view").get<bool>()});
  for (int step = 0; step < kZeroSteps; ++step) {
    if (step == kStepsBeforeAdding) {
      for (auto group = later; group != groups.end(); ++group) optimizer.add_param_group(*group);
    }
    for (std::size_t i = 0; i < count; ++i) {
      parameters[i].mutable_grad() = gradients.at(std::to_string(i))[step].clone();
    }
    optimizer.step();
  }
  TensorDict results;
  std::vector<std::int64_t> ranks;
  for (std::size_t i = 0; i < count; ++i) {
    ranks.push_back(optimizer.rank_of(parameters[i]));
    results.insert(std::to_string(i), parameters[i].detach().clone());
  }
  results.insert("ranks", at::tensor(ranks, at::kLong));
  return results;
}

TensorDict train_with(const json& variant, const TensorDict& start, const TensorDict& gradients) {
  using namespace torch::optim;
  const std::string name = variant.at("optimizer").get<std::string>();
  if (name == "SGD") {
    return train_divided<SGD>(variant, start, gradients,
                              SGDOptions(0.05).momentum(0.9).weight_decay(0.01));
  }
  if (name == "Adam") {
    return train_divided<Adam>(variant, start, gradients, AdamOptions(0.05).amsgrad(true));
  }
  if (name == "AdamW") {
    return train_divided<AdamW>(variant, start, gradients, AdamWOptions(0.05).weight_decay(0.1));
  }
  if (name == "RMSprop") {
    return train_divided<RMSprop>(variant, start, gradients, RMSpropOptions(0.05).momentum(0.5));
  }
  return train_divided<Adagrad>(variant, start, gradients, AdagradOptions(0.05));
}

}  // namespace

namespace testing {

void run_zero_redundancy_parity(const ParityRun& run) {
  const TensorDict start = load(run.folder / "start.pt"),
                   gradients = load(run.folder / "gradients.pt");
  for (const json& variant : json::parse(std::ifstream(run.folder / "variants.json"))) {
    const TensorDict results = train_with(variant, start, gradients);
    if (get_rank() != get_world_size() - 1) continue;
    save(run.folder / (run.name + "." + variant.at("name").get<std::string>() + ".pt"), results);
  }
}

}  // namespace testing
}  // namespace distrun
