#include "distrun/apply_optimizer_in_backward.h"

#include <functional>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/relu.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/schedulers/step_lr.h>
#include <torch/optim/sgd.h>
#include <torch/serialize.h>
#include <torch/utils.h>

namespace distrun {
namespace {

using torch::optim::OptimizerParamGroup;
using Parameters = std::vector<at::Tensor>;

struct TwoLinearImpl : torch::nn::Module {
  torch::nn::Linear first, second;
  std::function<void()> between = [] {};
  TwoLinearImpl()
      : first(register_module("first", torch::nn::Linear(4, 5))),
        second(register_module("second", torch::nn::Linear(5, 3))) {}
  // `between` runs in backward, when the gradients of `second` are complete.
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor hidden = at::relu(first(x));
    if (hidden.requires_grad()) {
      hidden.register_hook([this](const at::Tensor& gradient) {
        between();
        return gradient;
      });
    }
    return second(hidden);
  }
};

std::shared_ptr<TwoLinearImpl> make_two_linear() {
  torch::manual_seed(3);
  return std::make_shared<TwoLinearImpl>();
}

at::Tensor loss_of(TwoLinearImpl& net, int step) {
  return net.forward(at::arange(8, at::kFloat).view({2, 4}).sin() + step).pow(2).sum();
}

void expect_same_values(const torch::nn::Module& a, const torch::nn::Module& b) {
  for (std::size_t i = 0; i < a.parameters().size(); ++i) {
    EXPECT_TRUE(a.parameters()[i].equal(b.parameters()[i])) << i;
  }
}

template <class Optimizer, class Defaults>
void expect_as_ordinary_training(const Defaults& defaults) {
  const auto net = make_two_linear(), plain = make_two_linear();
  const auto optimizer = apply_optimizer_in_backward<Optimizer>(net->parameters(), defaults);
  Optimizer ordinary(plain->parameters(), defaults);
  for (int step = 0; step < 5; ++step) {
    loss_of(*net, step).backward();
    for (const at::Tensor& one : net->parameters()) EXPECT_FALSE(one.grad().defined());
    ordinary.zero_grad();
    loss_of(*plain, step).backward();
    ordinary.step();
    expect_same_values(*net, *plain);
  }
}

TEST(ApplyOptimizerInBackwardTest, TrainsAsAStepAfterBackwardDoes) {
  expect_as_ordinary_training<torch::optim::SGD>(torch::optim::SGDOptions(0.01).momentum(0.9));
  expect_as_ordinary_training<torch::optim::Adam>(torch::optim::AdamOptions(0.01).amsgrad(true));
  expect_as_ordinary_training<torch::optim::Adagrad>(torch::optim::AdagradOptions(0.01));
}

TEST(ApplyOptimizerInBackwardTest, UpdatesAndFreesEachGradientDuringBackward) {
  const auto net = make_two_linear();
  const auto optimizer = apply_optimizer_in_backward<torch::optim::SGD>(net->parameters(), 0.01);
  const at::Tensor before = net->second->weight.detach().clone();
  int calls = 0;
  net->between = [&] {
    ++calls;
    EXPECT_FALSE(net->second->weight.grad().defined());
    EXPECT_FALSE(net->second->weight.equal(before));
  };
  loss_of(*net, 0).backward();
  EXPECT_EQ(calls, 1);
}

TEST(ApplyOptimizerInBackwardTest, AParameterThatIsUsedTwiceIsUpdatedOnce) {
  const at::Tensor shared = at::ones({2}).requires_grad_();
  const auto optimizer =
      apply_optimizer_in_backward<torch::optim::SGD>(Parameters{shared, shared}, 0.5);
  (shared * 3 + shared.pow(2)).sum().backward();
  EXPECT_TRUE(shared.equal(at::ones({2}) - 0.5 * 5));
}

TEST(ApplyOptimizerInBackwardTest, GroupsHaveTheirOptions) {
  const at::Tensor a = at::ones({2}).requires_grad_(), b = at::ones({2}).requires_grad_();
  std::vector<OptimizerParamGroup> groups;
  groups.emplace_back(Parameters{a});
  groups.emplace_back(Parameters{b}, std::make_unique<torch::optim::SGDOptions>(0.25));
  const auto optimizer = apply_optimizer_in_backward<torch::optim::SGD>(groups, 0.5);
  (a + b).sum().backward();
  EXPECT_TRUE(a.equal(at::ones({2}) * 0.5));
  EXPECT_TRUE(b.equal(at::ones({2}) * 0.75));
  EXPECT_EQ(optimizer->param_groups()[0].params().size(), 1);
  EXPECT_EQ(optimizer->param_groups()[1].params().size(), 1);
}

TEST(ApplyOptimizerInBackwardTest, TwoOptimizersOfAParameterBothUpdateIt) {
  const at::Tensor a = at::ones({2}).requires_grad_();
  const auto first = apply_optimizer_in_backward<torch::optim::SGD>(Parameters{a}, 0.5);
  const auto second = apply_optimizer_in_backward<torch::optim::SGD>(Parameters{a}, 0.125);
  a.sum().backward();
  EXPECT_TRUE(a.equal(at::ones({2}) * 0.375));
  EXPECT_FALSE(a.grad().defined());
}

TEST(ApplyOptimizerInBackwardTest, FollowsASchedulerAndSavesItsState) {
  const auto net = make_two_linear(), plain = make_two_linear();
  torch::optim::Adam ordinary(plain->parameters(), 0.1);
  torch::optim::StepLR ordinary_schedule(ordinary, 1, 0.5);
  auto optimizer = apply_optimizer_in_backward<torch::optim::Adam>(net->parameters(), 0.1);
  torch::optim::StepLR schedule(*optimizer, 1, 0.5);
  for (int step = 0; step < 4; ++step) {
    if (step == 2) {
      std::stringstream file;
      torch::save(*optimizer, file);
      optimizer = apply_optimizer_in_backward<torch::optim::Adam>(net->parameters(), 9.0);
      torch::load(*optimizer, file);
    }
    loss_of(*net, step).backward();
    ordinary.zero_grad();
    loss_of(*plain, step).backward();
    ordinary.step();
    if (step >= 2) continue;
    schedule.step();
    ordinary_schedule.step();
  }
  expect_same_values(*net, *plain);
}

TEST(ApplyOptimizerInBackwardTest, WithoutTheOptimizerGradientsAccumulateAsUsual) {
  const at::Tensor a = at::ones({2}).requires_grad_();
  auto optimizer = apply_optimizer_in_backward<torch::optim::SGD>(Parameters{a}, 0.5);
  const std::weak_ptr<torch::optim::SGD> last = optimizer;
  optimizer.reset();
  EXPECT_TRUE(last.expired());
  a.sum().backward();
  a.sum().backward();
  EXPECT_TRUE(a.equal(at::ones({2})));
  EXPECT_TRUE(a.grad().equal(at::ones({2}) * 2));
}

TEST(ApplyOptimizerInBackwardTest, SaysThatAParameterGroupWasRemoved) {
  const at::Tensor a = at::ones({2}).requires_grad_();
  const auto optimizer = apply_optimizer_in_backward<torch::optim::SGD>(Parameters{a}, 0.5);
  optimizer->param_groups().clear();
  try {
    a.sum().backward();
    ADD_FAILURE() << "no error";
  } catch (const c10::Error& error) {
    EXPECT_STREQ(error.what_without_backtrace(),
                 "apply_optimizer_in_backward: a parameter group was removed; make another "
                 "optimizer instead");
  }
}

TEST(ApplyOptimizerInBackwardTest, BackwardThrowsTheErrorOfTheOptimizer) {
  struct Fails : torch::optim::SGD {
    using SGD::SGD;
    at::Tensor step(LossClosure /*closure*/) override { throw std::runtime_error("no step today"); }
  };
  const at::Tensor a = at::ones({2}).requires_grad_();
  const auto optimizer = apply_optimizer_in_backward<Fails>(Parameters{a}, 0.5);
  EXPECT_THROW(a.sum().backward(), std::runtime_error);
  EXPECT_EQ(optimizer->param_groups()[0].params().size(), 1);
}

}  // namespace
}  // namespace distrun
