// Errors of pipelines: every rank fails, and names the rank that failed first.
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/modules/linear.h>

#include "distrun/distributed_data_parallel.h"
#include "parallel/pipeline/test/pipeline_multirank_fixture.h"

namespace distrun {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct BreaksInBackward : torch::autograd::Function<BreaksInBackward> {
  static at::Tensor forward(torch::autograd::AutogradContext* /*ctx*/, const at::Tensor& x) {
    return x.clone();
  }
  static std::vector<at::Tensor> backward(torch::autograd::AutogradContext* /*ctx*/,
                                          const std::vector<at::Tensor>& /*gradients*/) {
    throw std::runtime_error("backward is broken");
  }
};

struct BreakableImpl : StageNetImpl {
  using StageNetImpl::StageNetImpl;
  bool breaks_forward = false, breaks_backward = false, grows = false, forgets = false;
  int calls = 0;

  at::Tensor forward(const at::Tensor& x) {
    if (breaks_forward && calls++ == 1) throw std::runtime_error("forward is broken");
    if (forgets) return {};
    at::Tensor y = StageNetImpl::forward(x);
    if (breaks_backward) y = BreaksInBackward::apply(y);
    return grows && calls++ == 3 ? at::cat({y, y}) : y;
  }
};

class PipelineErrorsMultirankTest : public PipelineFixture {
 protected:
  // A rank that ends the group at once must not disturb ranks that still connect.
  static Group connected_group() {
    Group group = new_group();
    barrier({.group = group});
    return group;
  }

  // Trains a stage in a new group. `change` may change the stage of rank `which`. Expects `text` of
  // its error, and the same in the error of the others, in this step or in a later one.
  template <class Schedule, class Change, class Step>
  static void expect_failure(int which, const std::string& text, const Change& change,
                             const Step& step, int microbatches = 4,
                             const PipelineLoss& loss = mean_loss) {
    SCOPED_TRACE("rank " + std::to_string(which));
    const Group group = connected_group();
    const auto net = std::make_shared<BreakableImpl>(get_rank());
    if (get_rank() == which) change(*net);
    const PipelineStage stage(net, get_rank(), get_world_size(), {.group = group});
    Schedule schedule(stage, microbatches, loss);
    const auto steps = [&] {
      for (int i = 0; i < 3; ++i) step(schedule);
    };
    if (get_rank() == which) {
      EXPECT_THAT(text_of(steps), HasSubstr(text));
    } else {
      EXPECT_THAT(error_of<c10::DistError>(steps),
                  AllOf(HasSubstr("pipeline on rank " + std::to_string(get_rank()) + ": rank " +
                                  std::to_string(which) + " has failed: "),
                        HasSubstr(text), HasSubstr("; this rank saw: ")));
    }
    barrier();  // In the default group, which still works.
    destroy_process_group(group);
  }
  static constexpr auto kTrain = [](auto& schedule) {
    schedule.step({.args = {batch(8)}, .target = target(8)});
  };
  static constexpr auto kNoChange = [](BreakableImpl& /*net*/) {};

  template <class Act>
  static std::string text_of(const Act& act) {
    try {
      act();
    } catch (const c10::Error& error) {
      return error.what_without_backtrace();
    } catch (const std::exception& error) {
      return error.what();
    }
    return "no error";
  }
  static std::string at_stage() {
    return "pipeline on rank " + std::to_string(get_rank()) + ", stage " +
           std::to_string(get_rank()) + ": ";
  }
  static int last() { return get_world_size() - 1; }
};

TEST_F(PipelineErrorsMultirankTest, AFailingForwardFailsEveryRank) {
  for (int which = 0; which <= last(); ++which) {
    const auto change = [](BreakableImpl& net) { net.breaks_forward = true; };
    expect_failure<ScheduleGPipe>(which, "forward is broken", change, kTrain);
    expect_failure<Schedule1F1B>(which, "forward is broken", change, kTrain);
  }
}

TEST_F(PipelineErrorsMultirankTest, AFailingBackwardFailsEveryRank) {
  for (int which = 0; which <= last(); ++which) {
    const auto change = [](BreakableImpl& net) { net.breaks_backward = true; };
    expect_failure<ScheduleGPipe>(which, "backward is broken", change, kTrain);
    expect_failure<Schedule1F1B>(which, "backward is broken", change, kTrain);
  }
}

TEST_F(PipelineErrorsMultirankTest, AFailingLossFailsEveryRank) {
  const auto broken = [](const at::Tensor& output, const at::Tensor& /*target*/) {
    if (output.defined()) throw std::runtime_error("loss is broken");
    return output;
  };
  expect_failure<Schedule1F1B>(last(), "loss is broken", kNoChange, kTrain, 4, broken);
  const auto several = [](const at::Tensor& output, const at::Tensor& /*target*/) {
    return output;
  };
  expect_failure<ScheduleGPipe>(last(),
                                "the loss function returns sizes [2, 5]; expected one element",
                                kNoChange, kTrain, 4, several);
  const auto none = [](const at::Tensor& /*output*/, const at::Tensor& /*target*/) {
    return at::Tensor();
  };
  expect_failure<ScheduleGPipe>(last(), "the loss function returns an undefined tensor", kNoChange,
                                kTrain, 4, none);
}

TEST_F(PipelineErrorsMultirankTest, OutputsOfOtherSizesForTheSameInputsAreRejected) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs two stages";
  for (int which = 0; which < last(); ++which) {
    // In the second step, not for its first micro-batch.
    expect_failure<ScheduleGPipe>(
        which,
        "the outputs of stage " + std::to_string(which) +
            " for micro-batch 1 have changed, but its inputs have the same sizes: output 0 is "
            "Double [8, 5], which requires a gradient; it was Double [4, 5]",
        [](BreakableImpl& net) { net.grows = true; }, kTrain, 2);
  }
}

TEST_F(PipelineErrorsMultirankTest, AStageNeedsOutputsForTheNext) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs two stages";
  expect_failure<ScheduleGPipe>(
      0, "forward() returns an undefined tensor, which the next stage cannot receive",
      [](BreakableImpl& net) { net.forgets = true; }, kTrain);
}

TEST_F(PipelineErrorsMultirankTest, AStageWithoutOutputsFailsBeforeTheLast) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs two stages";
  struct Nothing : torch::nn::Module {
    std::vector<at::Tensor> forward(const at::Tensor& /*x*/) { return {}; }
  };
  const Group group = connected_group();
  const PipelineStage stage(std::make_shared<Nothing>(), get_rank(), get_world_size(),
                            {.group = group});
  ScheduleGPipe schedule(stage, 2);
  EXPECT_THAT(text_of([&] { kTrain(schedule); }),
              HasSubstr("stage 0: forward() returns no tensor for the next stage"));
  barrier();
  destroy_process_group(group);
}

TEST_F(PipelineErrorsMultirankTest, MissingOrSmallBatchesFailEveryRank) {
  expect_failure<ScheduleGPipe>(0, "the first stage needs args, but there are none", kNoChange,
                                [](auto& schedule) { schedule.step({.target = target(8)}); });
  expect_failure<ScheduleGPipe>(
      0, "args[0] has size 3 along dimension 0; expected at least 4, one for each micro-batch",
      kNoChange, [](auto& schedule) { schedule.step({.args = {batch(3)}, .target = target(8)}); });
  expect_failure<ScheduleGPipe>(last(), "target is not defined", kNoChange,
                                [](auto& schedule) { schedule.step({.args = {batch(8)}}); });
}

TEST_F(PipelineErrorsMultirankTest, EveryStageMustCallTheSameFunction) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs two stages";
  if (backend() == "shm") GTEST_SKIP() << "a send to a rank that has failed may return";
  expect_failure<ScheduleGPipe>(
      1,
      "stage 0 runs a step without backward and 4 micro-batches; stage 1 runs step() with a loss "
      "and 4; every stage must call the same function",
      kNoChange, [](auto& schedule) {
        const PipelineBatch both = {.args = {batch(8)}, .target = target(8)};
        if (get_rank() == 0) {
          schedule.eval(both);
        } else {
          schedule.step(both);
        }
      });
  expect_failure<Schedule1F1B>(1, "stage 0 runs step() with a loss and 4 micro-batches", kNoChange,
                               kTrain, get_rank() == 0 ? 4 : 3);
}

TEST_F(PipelineErrorsMultirankTest, StepNeedsGradients) {
  const PipelineStage stage(StageNet(0), get_rank(), get_world_size(),
                            {.group = connected_group()});
  ScheduleGPipe schedule(stage, 2, mean_loss);
  const at::NoGradGuard no_grad;
  EXPECT_THAT(text_of([&] { kTrain(schedule); }),
              HasSubstr(at_stage() + "step() needs gradients, which a NoGradGuard has disabled; "
                                     "call eval() instead"));
  barrier();
}

TEST_F(PipelineErrorsMultirankTest, AForwardWithOtherArgumentsIsRejected) {
  expect_failure<ScheduleGPipe>(
      0, "PipelineStage: the stage gets 2 tensors, but forward() of", kNoChange,
      [](auto& schedule) {
        schedule.step({.args = {batch(8), batch(8)}, .target = target(8)});
      });
}

TEST_F(PipelineErrorsMultirankTest, ALossOfOneTensorNeedsOneOutput) {
  struct Two : torch::nn::Module {
    std::vector<at::Tensor> forward(const at::Tensor& x) { return {x, x}; }
  };
  const Group group = new_group({get_rank()}, {.use_local_synchronization = true});
  const PipelineStage stage(std::make_shared<Two>(), 0, 1, {.group = group});
  ScheduleGPipe schedule(stage, 2, mean_loss);
  EXPECT_EQ(text_of([&] { kTrain(schedule); }),
            "pipeline on rank " + std::to_string(get_rank()) +
                ": the last stage has 2 outputs, but the loss function takes one tensor; let it "
                "take a std::vector<at::Tensor>");
}

TEST_F(PipelineErrorsMultirankTest, RejectsInvalidStages) {
  const int rank = get_rank(), ranks = get_world_size();
  EXPECT_EQ(error_of<c10::ValueError>(
                [&] { PipelineStage(std::shared_ptr<StageNetImpl>(), rank, ranks); }),
            "PipelineStage: the module is null");
  EXPECT_EQ(error_of<c10::ValueError>([&] { PipelineStage(StageNet(nullptr), rank, ranks); }),
            "PipelineStage: the module is null");
  EXPECT_EQ(error_of<c10::ValueError>([&] { PipelineStage(StageNet(0), rank, ranks + 1); }),
            "PipelineStage on rank " + std::to_string(rank) + ": num_stages is " +
                std::to_string(ranks + 1) + "; expected " + std::to_string(ranks) +
                ", the number of ranks in the group");
  EXPECT_EQ(error_of<c10::ValueError>([&] { PipelineStage(StageNet(0), rank + 1, ranks); }),
            "PipelineStage on rank " + std::to_string(rank) + ": stage_index is " +
                std::to_string(rank + 1) + "; expected " + std::to_string(rank) +
                ", the rank in the group");
  const PipelineStage stage(StageNet(0), rank, ranks);
  EXPECT_EQ(
      error_of<c10::ValueError>([&] { ScheduleGPipe(stage, 0); }),
      "pipeline on rank " + std::to_string(rank) + ": n_microbatches is 0; expected 1 or more");
}

// It would reduce with the gradients of a few micro-batches only.
TEST_F(PipelineErrorsMultirankTest, RejectsADistributedDataParallelWithinTheModule) {
  torch::nn::Linear net(3, 3);
  const Group alone = new_group({get_rank()}, {.use_local_synchronization = true});
  DistributedDataParallel ddp(net, {.process_group = alone});
  EXPECT_EQ(error_of<c10::ValueError>(
                [&] { PipelineStage<torch::nn::Linear>(net, get_rank(), get_world_size()); }),
            "PipelineStage on rank " + std::to_string(get_rank()) +
                ": a DistributedDataParallel reduces parameter 'weight'; make it the module of the "
                "stage, with nothing around it");
}

TEST_F(PipelineErrorsMultirankTest, SaysThatTheLossRequiresNoGradient) {
  torch::nn::Linear net(3, 3);
  for (at::Tensor& one : net->parameters()) one.requires_grad_(false);
  PipelineStage<torch::nn::Linear> stage(net, get_rank(), get_world_size(),
                                         {.group = connected_group()});
  ScheduleGPipe schedule(stage, 2, [](const at::Tensor& output, const at::Tensor& /*target*/) {
    return output.sum();
  });
  const std::string error = error_of([&] {
    schedule.step({.args = {at::ones({4, 3})}, .target = at::ones({4})});
  });
  if (!stage.is_last()) return;  // Other ranks have done their part of the step.
  EXPECT_THAT(error,
              HasSubstr("the loss requires no gradient: neither the last stage nor an earlier one "
                        "has parameters that do, or the loss function detaches them"));
}

}  // namespace
}  // namespace distrun
