// apply_optimizer_in_backward() updates each parameter during backward(), as soon as its gradient
// is complete, and then frees the gradient.  So the gradients of a model are never all in memory,
// and the updates overlap with the rest of backward().
//
//     const auto optimizer =
//         apply_optimizer_in_backward<torch::optim::SGD>(net->parameters(), 0.02);
//     torch::optim::StepLR scheduler(*optimizer, /*step_size=*/30, /*gamma=*/0.1);
//     for (const auto& [inputs, targets] : data) {
//       loss(net(inputs), targets).backward();        // No zero_grad() and no step().
//     }
//     torch::save(*optimizer, "optimizer.pt");
//
// The result is a plain optimizer, which the hooks of the parameters use.  It has the state and the
// options of the parameters.  Keep it while you train: when the last std::shared_ptr to it is
// destroyed, backward() computes gradients as before.  Do not call its step().
//
// If a DistributedDataParallel averages the gradients, pass its reducer() as the first argument.
// Each bucket is then reduced before its parameters are updated:
//
//     DistributedDataParallel ddp(net);
//     const auto optimizer = apply_optimizer_in_backward<torch::optim::SGD>(
//         ddp.reducer(), ddp.parameters(), 0.02);
//     for (…) loss(ddp(inputs), targets).backward();
//
// The DistributedDataParallel keeps this optimizer, too, and updates its parameters as long as it
// exists.  Under no_sync(), gradients accumulate as usual, until the next backward() that reduces.
//
// The optimizer can be any class that treats each parameter alone and needs no closure, such as
// SGD, Adam, AdamW, RMSprop or Adagrad.  The results are those of a step() after backward().
// Clipping the norm of all gradients and accumulating gradients over several backward() are not
// possible, since each gradient is used at once.  A forward must not use a parameter in a way that
// autograd does not see, for example its detach(), if the backward needs this value: it may have
// changed.  Parameters of a FullyShardedDataParallel are not supported.
//
// Thread safety: one thread at a time may call backward() with these parameters.
// PyTorch source: torch/distributed/optim/apply_optimizer_in_backward.py.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

namespace torch::optim {
class LBFGS;
}

namespace distrun {

class DdpReducer;

namespace internal {

void step_in_backward(const std::shared_ptr<torch::optim::Optimizer>& optimizer);
void step_in_backward(DdpReducer& ddp, const std::shared_ptr<torch::optim::Optimizer>& optimizer);

template <class Optimizer>
concept StepsEachParameterAlone = std::is_base_of_v<torch::optim::Optimizer, Optimizer> &&
    !std::is_base_of_v<torch::optim::LBFGS, Optimizer>;

}  // namespace internal

// Creates an optimizer, and lets backward() update the parameters of the groups.  `defaults` are
// options of the optimizer, such as torch::optim::AdamOptions(1e-3).  If a parameter already has an
// optimizer in backward, both update it, the earlier one first.
//
// backward() throws the exceptions of the optimizer.  It also throws c10::Error if a parameter
// belongs to a DistributedDataParallel, whose gradients are reduced later.
//
// Throws: the exceptions of the optimizer's constructor.
template <internal::StepsEachParameterAlone Optimizer, class Defaults>
[[nodiscard]] std::shared_ptr<Optimizer> apply_optimizer_in_backward(
    const std::vector<torch::optim::OptimizerParamGroup>& groups, const Defaults& defaults) {
  auto optimizer = std::make_shared<Optimizer>(groups, defaults);
  internal::step_in_backward(optimizer);
  return optimizer;
}
// Does the same with one group of these parameters.
template <internal::StepsEachParameterAlone Optimizer, class Defaults>
[[nodiscard]] std::shared_ptr<Optimizer> apply_optimizer_in_backward(
    const std::vector<at::Tensor>& parameters, const Defaults& defaults) {
  auto optimizer = std::make_shared<Optimizer>(parameters, defaults);
  internal::step_in_backward(optimizer);
  return optimizer;
}

// Does the same for parameters of a DistributedDataParallel or DdpReducer, after the reduction.
// Uses its communication hook.  Call it before the first backward(), on every rank.  Parameters
// that are not listed keep their reduced gradients.
//
// backward() throws the exceptions of the optimizer, and of the reduction.
//
// Throws: c10::ValueError if `ddp` does not reduce a parameter.
// Also throws c10::ValueError if DdpOptions::find_unused_parameters is set.  A parameter that no
// rank uses would be updated with a gradient of zeros.
// Also throws c10::Error if `ddp` has a communication hook, such as that of another optimizer.
// Also throws the exceptions of the optimizer's constructor.
template <internal::StepsEachParameterAlone Optimizer, class Defaults>
[[nodiscard]] std::shared_ptr<Optimizer> apply_optimizer_in_backward(
    DdpReducer& ddp, const std::vector<torch::optim::OptimizerParamGroup>& groups,
    const Defaults& defaults) {
  auto optimizer = std::make_shared<Optimizer>(groups, defaults);
  internal::step_in_backward(ddp, optimizer);
  return optimizer;
}
// Does the same with one group of these parameters.
template <internal::StepsEachParameterAlone Optimizer, class Defaults>
[[nodiscard]] std::shared_ptr<Optimizer> apply_optimizer_in_backward(
    DdpReducer& ddp, const std::vector<at::Tensor>& parameters, const Defaults& defaults) {
  auto optimizer = std::make_shared<Optimizer>(parameters, defaults);
  internal::step_in_backward(ddp, optimizer);
  return optimizer;
}

}  // namespace distrun
