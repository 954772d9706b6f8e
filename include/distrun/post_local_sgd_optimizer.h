// PostLocalSGDOptimizer runs an optimizer and then a model averager in each step, for post-local
// SGD (post_local_sgd_hook.h).
//
//     auto sgd = std::make_shared<torch::optim::SGD>(ddp.parameters(), 0.1);
//     auto averager = std::make_shared<PeriodicModelAverager>(
//         PeriodicModelAveragerOptions{.period = 4, .warmup_steps = 100});
//     PostLocalSGDOptimizer optimizer(sgd, averager);
//     torch::optim::StepLR scheduler(*sgd, /*step_size=*/30);
//     for (…) {
//       optimizer.zero_grad();
//       loss(ddp(images), digits).backward();
//       optimizer.step();
//     }
//     torch::save(optimizer, "optimizer.pt");
//
// In contrast to Python, it is not a torch::optim::Optimizer, because a C++ optimizer has its own
// copy of the parameter groups.  Pass the wrapped optimizer to learning rate schedulers.
//
// Thread safety: one thread at a time.
// PyTorch source: torch/distributed/optim/post_localSGD_optimizer.py.
#pragma once

#include <functional>
#include <memory>

#include <ATen/core/Tensor.h>

#include "distrun/model_averager.h"

namespace torch::optim {
class Optimizer;
}
namespace torch::serialize {
class InputArchive;
class OutputArchive;
}  // namespace torch::serialize

namespace distrun {

class PostLocalSGDOptimizer {
 public:
  // Wraps an optimizer.
  //
  // Throws: c10::ValueError if a pointer is null.
  PostLocalSGDOptimizer(std::shared_ptr<torch::optim::Optimizer> optim,
                        std::shared_ptr<ModelAverager> averager);

  // Runs a step of the optimizer, and then ModelAverager::average_parameters() with the optimizer's
  // parameters.  Returns the result of the optimizer.
  //
  // Blocks: as ModelAverager::average_parameters().
  // Throws: the exceptions of the optimizer and of ModelAverager::average_parameters().
  // Cost: the costs of both.
  at::Tensor step(const std::function<at::Tensor()>& closure = nullptr);

  // Calls the optimizer's zero_grad().
  void zero_grad(bool set_to_none = true);

  // Adds a parameter group to the optimizer.
  void add_param_group(const torch::optim::OptimizerParamGroup& param_group);

  // Returns the parameter groups of the optimizer.
  ParamGroups& param_groups();

  // Returns the optimizer.
  const std::shared_ptr<torch::optim::Optimizer>& optim() const { return optim_; }
  // Returns the averager.
  const std::shared_ptr<ModelAverager>& averager() const { return averager_; }

  // Saves the state of the optimizer and the step of the averager.
  void save(torch::serialize::OutputArchive& archive) const;
  // Loads what save() has saved.  If the archive has no step, for example because the optimizer
  // alone was saved, sets the averager's step to 0 and prints a warning.
  //
  // Throws: c10::Error if the step in the archive is negative or is not a number.  Nothing changes
  // then.
  // Also throws the exceptions of the optimizer's load().
  void load(torch::serialize::InputArchive& archive);

 private:
  std::shared_ptr<torch::optim::Optimizer> optim_;
  std::shared_ptr<ModelAverager> averager_;
};

// Saves an optimizer, so that torch::save(optimizer, "optimizer.pt") works.
torch::serialize::OutputArchive& operator<<(torch::serialize::OutputArchive& archive,
                                            const PostLocalSGDOptimizer& optimizer);
// Loads an optimizer, so that torch::load(optimizer, "optimizer.pt") works.
torch::serialize::InputArchive& operator>>(torch::serialize::InputArchive& archive,
                                           PostLocalSGDOptimizer& optimizer);

}  // namespace distrun
