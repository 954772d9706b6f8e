// Pipelines compared with one process, on every rank of a run.
//
//     distrun launch --nproc-per-node 3 build/tests/parallel_multirank_test
//         --gtest_filter='Pipeline*MultirankTest.*'
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <c10/core/Storage.h>
#include <c10/util/intrusive_ptr.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>

#include "parallel/pipeline/test/pipeline_multirank_fixture.h"

namespace distrun {
namespace {

class PipelineMultirankTest : public PipelineFixture {};

// Passes integers, and a tensor without gradient, through all stages.
struct SeveralImpl : torch::nn::Module {
  at::Tensor weight;
  explicit SeveralImpl(int stage) {
    weight = register_parameter("weight", at::full({kStageWidth}, 1.0 + 0.1 * stage, at::kDouble));
  }
  std::tuple<at::Tensor, std::vector<at::Tensor>> forward(const at::Tensor& x,
                                                          const at::Tensor& rows,
                                                          const at::Tensor& constant) {
    return {x * weight + constant, {rows + 1, constant.detach() * 2}};
  }
};
TORCH_MODULE(Several);

// Counts its outputs that are alive: autograd keeps them for the backward of tanh.
struct ActivationCounterImpl : StageNetImpl {
  using StageNetImpl::StageNetImpl;
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> activations;
  std::size_t most = 0;

  at::Tensor forward(const at::Tensor& x) {
    at::Tensor y = StageNetImpl::forward(x);
    activations.push_back(y.storage().getWeakStorageImpl());
    const auto living = std::count_if(activations.begin(), activations.end(),
                                      [](const auto& one) { return one.use_count() > 0; });
    most = std::max(most, static_cast<std::size_t>(living));
    return y;
  }
};

// The loss uses only the first output.
struct TwoStreamsImpl : torch::nn::Module {
  at::Tensor a = register_parameter("a", at::full({kStageWidth}, 2.0, at::kDouble)),
             b = register_parameter("b", at::full({kStageWidth}, 3.0, at::kDouble));
  std::pair<at::Tensor, at::Tensor> forward(const at::Tensor& x, const at::Tensor& y) {
    return {x * a, y * b};
  }
};

struct ListOfTwoImpl : torch::nn::Module {
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& x) {
    return {x.at(0) * 2, x.at(1) * 3};
  }
};

template <class Schedule>
std::size_t most_activations(int microbatches, const at::Tensor& x, const at::Tensor& y,
                             bool trains = true) {
  const auto net = std::make_shared<ActivationCounterImpl>(get_rank());
  const PipelineStage stage(net, get_rank(), get_world_size());
  Schedule schedule(stage, microbatches, [](const at::Tensor& output, const at::Tensor& target) {
    return (output - target).pow(2).mean();
  });
  for (int step = 0; step < 2; ++step) {
    const PipelineBatch all = {.args = {x}, .target = y, .return_outputs = false};
    trains ? schedule.step(all) : schedule.eval(all);
  }
  return net->most;
}

TEST_F(PipelineMultirankTest, GPipeTrainsAsOneProcess) {
  for (const int microbatches : {1, 2, 3, 4, 9}) {
    expect_same_training<ScheduleGPipe>(9, microbatches, true, mean_loss);
  }
}

TEST_F(PipelineMultirankTest, OneForwardOneBackwardTrainsAsOneProcess) {
  for (const int microbatches : {1, 2, 3, 4, 9}) {
    expect_same_training<Schedule1F1B>(9, microbatches, true, mean_loss);
  }
}

TEST_F(PipelineMultirankTest, ASummedLossOfUnevenMicrobatchesIsThatOfTheBatch) {
  expect_same_training<ScheduleGPipe>(7, 4, false, sum_loss);
  const PipelineStage stage(StageNet(get_rank()), get_rank(), get_world_size());
  Schedule1F1B schedule(stage, 4, sum_loss, {.scale_grads = false});
  schedule.step({.args = {batch(7)}, .target = target(7)});
  const WholeNet whole(get_world_size());
  whole.step(batch(7), target(7), /*microbatches=*/1, false, sum_loss);
  expect_same_parameters(*stage.module(), whole.stage(get_rank()));
}

TEST_F(PipelineMultirankTest, BatchesOfOtherSizesAreAnnounced) {
  const PipelineStage stage(StageNet(get_rank()), get_rank(), get_world_size());
  const WholeNet whole(get_world_size());
  Schedule1F1B schedule(stage, 3, mean_loss);
  int step = 0;
  for (const int size : {6, 6, 7, 8, 3, 3, 6}) {
    expect_same_step(schedule, stage, whole, size, step++, 3, true, mean_loss);
  }
}

TEST_F(PipelineMultirankTest, StepsAddToTheGradients) {
  const PipelineStage stage(StageNet(get_rank()), get_rank(), get_world_size());
  const WholeNet whole(get_world_size());
  ScheduleGPipe schedule(stage, 2, mean_loss);
  for (const int step : {0, 1, 2}) {
    expect_same_step(schedule, stage, whole, 4, step, 2, true, mean_loss);
  }
}

TEST_F(PipelineMultirankTest, EvalComputesOutputsAndLossesWithoutGradients) {
  const PipelineStage stage(StageNet(get_rank()), get_rank(), get_world_size());
  const WholeNet whole(get_world_size());
  Schedule1F1B schedule(stage, 3, mean_loss);
  for (const int size : {5, 5, 9}) {
    const PipelineResult result = schedule.eval({.args = {batch(size)}, .target = target(size)});
    EXPECT_FALSE(stage.module()->linear->weight.grad().defined());
    if (stage.is_last()) {
      const at::NoGradGuard no_grad;
      expect_near(result.outputs.at(0), whole.forward(batch(size)), "output");
      EXPECT_EQ(result.losses.size(), 3u);
    }
  }
  expect_same_step(schedule, stage, whole, 9, 0, 3, true, mean_loss);
  const PipelineResult result = schedule.eval({.args = {batch(9)}});
  EXPECT_TRUE(result.losses.empty());
  EXPECT_EQ(result.outputs.size(), stage.is_last() ? 1u : 0u);
  expect_same_step(schedule, stage, whole, 9, 1, 3, true, mean_loss);
  EXPECT_TRUE(schedule.step({.args = {batch(9)}, .target = target(9), .return_outputs = false})
                  .outputs.empty());
}

TEST_F(PipelineMultirankTest, AScheduleWithoutLossRunsForwardsOnly) {
  const PipelineStage stage(StageNet(get_rank()), get_rank(), get_world_size());
  ScheduleGPipe schedule(stage, 2);
  const PipelineResult result = schedule.step({.args = {batch(4)}});
  EXPECT_FALSE(stage.module()->linear->weight.grad().defined());
  if (!stage.is_last()) return;
  const at::NoGradGuard no_grad;
  expect_near(result.outputs.at(0), WholeNet(get_world_size()).forward(batch(4)), "output");
}

TEST_F(PipelineMultirankTest, SeveralTensorsPassBetweenStages) {
  const int ranks = get_world_size();
  const PipelineStage stage(Several(get_rank()), get_rank(), ranks);
  Schedule1F1B schedule(stage, 3,
                        [](const std::vector<at::Tensor>& outputs, const at::Tensor& target) {
                          return (outputs[0] - target).pow(2).mean() + outputs[1].sum() * 0;
                        });
  const at::Tensor rows = at::arange(6), constant = at::ones({6, 1}, at::kDouble);
  at::Tensor x = batch(6), expected = x;
  std::vector<at::Tensor> weights;
  for (int i = 0; i < ranks; ++i) {
    weights.push_back(SeveralImpl(i).weight);
    expected = expected * weights.back() + std::pow(2, i);
  }
  const auto parts = expected.tensor_split(3), targets = target(6).tensor_split(3);
  at::stack({mean_loss(parts[0], targets[0]), mean_loss(parts[1], targets[1]),
             mean_loss(parts[2], targets[2])})
      .mean()
      .backward();
  for (int step = 0; step < 2; ++step) {
    stage.module()->zero_grad();
    const PipelineResult result = schedule.step({.args = {x, rows, constant}, .target = target(6)});
    expect_near(stage.module()->weight.grad(), weights[static_cast<std::size_t>(get_rank())].grad(),
                "weight");
    if (!stage.is_last()) continue;
    ASSERT_EQ(result.outputs.size(), 3u);
    expect_near(result.outputs[0], expected.detach(), "output");
    EXPECT_TRUE(result.outputs[1].equal(rows + ranks)) << result.outputs[1];
  }
}

TEST_F(PipelineMultirankTest, AnOutputThatNoStageUsesHasZeroGradients) {
  const PipelineStage stage(std::make_shared<TwoStreamsImpl>(), get_rank(), get_world_size());
  Schedule1F1B schedule(stage, 2,
                        [](const std::vector<at::Tensor>& outputs, const at::Tensor& /*target*/) {
                          return outputs[0].mean();
                        });
  schedule.step({.args = {at::ones({4, kStageWidth}, at::kDouble), batch(4)}, .target = target(4)});
  const double expected = std::pow(2, get_world_size() - 1) / kStageWidth;
  expect_near(stage.module()->a.grad(), at::full({kStageWidth}, expected, at::kDouble), "a");
  if (stage.is_last()) {
    EXPECT_FALSE(stage.module()->b.grad().defined());
  } else {
    expect_near(stage.module()->b.grad(), at::zeros({kStageWidth}, at::kDouble), "b");
  }
}

TEST_F(PipelineMultirankTest, AForwardCanTakeAList) {
  const PipelineStage stage(std::make_shared<ListOfTwoImpl>(), get_rank(), get_world_size());
  ScheduleGPipe schedule(stage, 2);
  const PipelineResult result = schedule.step({.args = {batch(4), batch(4)}});
  if (!stage.is_last()) return;
  expect_near(result.outputs.at(0), batch(4) * std::pow(2, get_world_size()), "first");
  expect_near(result.outputs.at(1), batch(4) * std::pow(3, get_world_size()), "second");
}

TEST_F(PipelineMultirankTest, AStageCanBeASequential) {
  const torch::nn::Sequential net{StageNet(get_rank()), torch::nn::Identity()};
  const PipelineStage stage(net, get_rank(), get_world_size());
  Schedule1F1B schedule(stage, 2, mean_loss);
  schedule.step({.args = {batch(4)}, .target = target(4)});
  const WholeNet whole(get_world_size());
  whole.step(batch(4), target(4), 2, true, mean_loss);
  expect_same_parameters(*net->children()[0], whole.stage(get_rank()));
}

TEST_F(PipelineMultirankTest, ArgumentsGetGradients) {
  const PipelineStage stage(StageNet(get_rank()), get_rank(), get_world_size());
  Schedule1F1B schedule(stage, 3, mean_loss);
  const WholeNet whole(get_world_size());
  const at::Tensor leaf = batch(7).requires_grad_(), expected = batch(7).requires_grad_();
  for (int step = 0; step < 2; ++step) {  // Adds up.
    schedule.step({.args = {leaf * 2}, .target = target(7)});
    whole.step(expected * 2, target(7), 3, true, mean_loss);
  }
  if (stage.is_first()) expect_near(leaf.grad(), expected.grad(), "args");
  schedule.step({.args = {leaf}, .target = target(7)});
  whole.step(expected, target(7), 3, true, mean_loss);
  if (stage.is_first()) expect_near(leaf.grad(), expected.grad(), "args");
}

TEST_F(PipelineMultirankTest, AFrozenStageSendsNoGradient) {
  const PipelineStage stage(StageNet(get_rank()), get_rank(), get_world_size());
  const WholeNet whole(get_world_size());
  const bool is_frozen = stage.is_first() && !stage.is_last();
  for (at::Tensor& one : stage.module()->parameters()) one.requires_grad_(!is_frozen);
  ScheduleGPipe schedule(stage, 3, mean_loss);
  schedule.step({.args = {batch(6)}, .target = target(6)});
  whole.step(batch(6), target(6), 3, true, mean_loss);
  if (is_frozen) {
    EXPECT_FALSE(stage.module()->linear->weight.grad().defined());
  } else {
    expect_same_parameters(*stage.module(), whole.stage(get_rank()));
  }
}

TEST_F(PipelineMultirankTest, OneForwardOneBackwardKeepsFewerActivations) {
  constexpr std::size_t kMicrobatches = 8;
  const auto stages_left = static_cast<std::size_t>(get_world_size() - get_rank());
  EXPECT_EQ(most_activations<ScheduleGPipe>(kMicrobatches, batch(8), target(8)), kMicrobatches);
  EXPECT_EQ(most_activations<Schedule1F1B>(kMicrobatches, batch(8), target(8)), stages_left);
}

// A stage frees an output when it has been sent, at most as many micro-batches later as there are
// stages.
TEST_F(PipelineMultirankTest, EvalKeepsFewOutputs) {
  const std::size_t most =
      most_activations<Schedule1F1B>(12, batch(12), target(12), /*trains=*/false);
  EXPECT_LE(most, static_cast<std::size_t>(get_world_size()) + 1);
}

TEST_F(PipelineMultirankTest, StagesCanHaveAnyFloatingDtype) {
  for (const auto& [dtype, tolerance] :
       {std::pair(at::kFloat, 1e-5), std::pair(at::kBFloat16, 5e-2)}) {
    const PipelineStage stage(StageNet(get_rank(), dtype), get_rank(), get_world_size());
    const WholeNet whole(get_world_size(), dtype);
    Schedule1F1B schedule(stage, 2, mean_loss);
    schedule.step({.args = {batch(4, 0, dtype)}, .target = target(4, 0, dtype)});
    whole.step(batch(4, 0, dtype), target(4, 0, dtype), 2, true, mean_loss);
    expect_same_parameters(*stage.module(), whole.stage(get_rank()), tolerance);
  }
}

TEST_F(PipelineMultirankTest, SomeRanksCanFormAPipeline) {
  const int last = get_world_size() - 1;
  const Group group = new_group({last});
  if (!group.is_member()) {
    EXPECT_EQ(
        error_of<c10::ValueError>([&] { PipelineStage(StageNet(0), 0, 1, {.group = group}); }),
        "PipelineStage: rank " + std::to_string(get_rank()) +
            " is not in the group of the pipeline");
    return;
  }
  const PipelineStage stage(StageNet(0), 0, 1, {.group = group});
  EXPECT_TRUE(stage.is_first() && stage.is_last());
  EXPECT_EQ(stage.device(), at::kCPU);
  EXPECT_EQ(stage.group(), group);
  Schedule1F1B schedule(stage, 2, mean_loss);
  schedule.step({.args = {batch(4)}, .target = target(4)});
  const WholeNet whole(1);
  whole.step(batch(4), target(4), 2, true, mean_loss);
  expect_same_parameters(*stage.module(), whole.stage(0));
}

}  // namespace
}  // namespace distrun
