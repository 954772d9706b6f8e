// Helpers of tests of pipelines on every rank of a run. Each rank has one stage of a net, and can
// compute the whole net alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>

#include "backends/test/multirank_test.h"
#include "distrun/pipeline.h"

namespace distrun {

constexpr int kStageWidth = 5;

struct StageNetImpl : torch::nn::Module {
  torch::nn::Linear linear = register_module("linear", torch::nn::Linear(kStageWidth, kStageWidth));

  // The weights depend on the stage only.
  explicit StageNetImpl(int stage, at::ScalarType dtype = at::kDouble) {
    to(dtype);
    const at::NoGradGuard no_grad;
    for (const at::Tensor& one : parameters()) {
      one.copy_((at::arange(one.numel(), dtype).view(one.sizes()) * 0.7 + stage).sin() * 0.6);
    }
  }
  at::Tensor forward(const at::Tensor& x) { return at::tanh(linear(x)); }
};
TORCH_MODULE(StageNet);

// All stages in one process, trained with the same micro-batches.
class WholeNet {
 public:
  explicit WholeNet(int stages, at::ScalarType dtype = at::kDouble) {
    for (int i = 0; i < stages; ++i) stages_.push_back(std::make_shared<StageNetImpl>(i, dtype));
  }

  const StageNetImpl& stage(int index) const { return *stages_[static_cast<std::size_t>(index)]; }
  std::vector<at::Tensor> parameters() const {
    std::vector<at::Tensor> all;
    for (const auto& one : stages_) {
      for (const at::Tensor& parameter : one->parameters()) all.push_back(parameter);
    }
    return all;
  }
  at::Tensor forward(at::Tensor x) const {
    for (const auto& one : stages_) x = one->forward(x);
    return x;
  }
  // Adds to the gradients. Returns the losses of the micro-batches, and the output.
  template <class Loss>
  std::pair<at::Tensor, at::Tensor> step(const at::Tensor& x, const at::Tensor& target,
                                         int microbatches, bool scales, const Loss& loss) const {
    const auto inputs = x.tensor_split(microbatches), targets = target.tensor_split(microbatches);
    std::vector<at::Tensor> losses, outputs;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      outputs.push_back(forward(inputs[i]));
      losses.push_back(loss(outputs.back(), targets[i]));
    }
    const at::Tensor all = at::stack(losses);
    (scales ? all.mean() : all.sum()).backward();
    return {all.detach(), at::cat(outputs).detach()};
  }

 private:
  std::vector<std::shared_ptr<StageNetImpl>> stages_;
};

class PipelineFixture : public MultirankTest {
 protected:
  static at::Tensor batch(int size, int step = 0, at::ScalarType dtype = at::kDouble) {
    return (at::arange(size * kStageWidth, dtype).view({size, kStageWidth}) * 0.3 + step).sin();
  }
  static at::Tensor target(int size, int step = 0, at::ScalarType dtype = at::kDouble) {
    return batch(size, step + 100, dtype);
  }
  static at::Tensor mean_loss(const at::Tensor& output, const at::Tensor& target) {
    return (output - target).pow(2).mean();
  }
  static at::Tensor sum_loss(const at::Tensor& output, const at::Tensor& target) {
    return (output - target).pow(2).sum();
  }

  static void expect_near(const at::Tensor& got, const at::Tensor& expected,
                          const std::string& what, double tolerance = 1e-9) {
    ASSERT_TRUE(got.defined()) << what;
    ASSERT_EQ(got.sizes(), expected.sizes()) << what;
    EXPECT_TRUE(got.allclose(expected, tolerance, tolerance)) << what << "\n"
                                                              << got << "\nexpected\n"
                                                              << expected;
  }
  static void expect_same_parameters(const torch::nn::Module& got,
                                     const torch::nn::Module& expected, double tolerance = 1e-9) {
    for (const auto& one : expected.named_parameters()) {
      const at::Tensor its = got.named_parameters()[one.key()];
      expect_near(its.detach(), one.value().detach(), one.key(), tolerance);
      if (one.value().grad().defined()) {
        expect_near(its.grad(), one.value().grad(), "gradient of " + one.key(), tolerance);
      }
    }
  }

  // One training step of this rank and of a whole net; compares losses, outputs and gradients.
  template <class Schedule, class Loss>
  static void expect_same_step(Schedule& schedule, const PipelineStage<StageNet>& stage,
                               const WholeNet& whole, int size, int step, int microbatches,
                               bool scales, const Loss& loss) {
    const at::Tensor x = batch(size, step), y = target(size, step);
    const PipelineResult result = schedule.step({.args = {x}, .target = y});
    const auto [losses, output] = whole.step(x, y, microbatches, scales, loss);
    if (stage.is_last()) {
      ASSERT_EQ(result.outputs.size(), 1u);
      expect_near(at::stack(result.losses), losses, "losses");
      expect_near(result.outputs[0], output, "output");
      EXPECT_FALSE(result.outputs[0].requires_grad() || result.losses[0].requires_grad());
    } else {
      EXPECT_TRUE(result.outputs.empty() && result.losses.empty());
    }
    expect_same_parameters(*stage.module(), whole.stage(stage.stage_index()));
  }

  template <class Schedule, class Loss>
  static void expect_same_training(int size, int microbatches, bool scales, const Loss& loss) {
    SCOPED_TRACE("batch " + std::to_string(size) + ", micro-batches " +
                 std::to_string(microbatches));
    const PipelineStage stage(StageNet(get_rank()), get_rank(), get_world_size());
    const WholeNet whole(get_world_size());
    Schedule schedule(stage, microbatches, loss, {.scale_grads = scales});
    torch::optim::Adam mine(stage.module()->parameters(), 0.05), others(whole.parameters(), 0.05);
    for (int step = 0; step < 5; ++step) {
      mine.zero_grad();
      others.zero_grad();
      expect_same_step(schedule, stage, whole, size, step, microbatches, scales, loss);
      mine.step();
      others.step();
    }
    expect_same_parameters(*stage.module(), whole.stage(stage.stage_index()));
  }
};

}  // namespace distrun
