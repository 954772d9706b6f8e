// One rank's part of the steps of a pipeline: performs the actions of a schedule.
#pragma once

#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "distrun/pipeline_schedule.h"
#include "parallel/pipeline/microbatches.h"
#include "parallel/pipeline/pipeline_order.h"
#include "parallel/pipeline/stage_messages.h"

namespace distrun::internal {

struct PipelineStageState {
  PipelineStageCalls calls;
  StagePlace place;
  Group group;
  at::Device device;
};

class PipelineRunner {
 public:
  // `order` is that of this stage's training steps.
  PipelineRunner(std::shared_ptr<const PipelineStageState> stage, int microbatches,
                 PipelineLoss loss, const PipelineScheduleOptions& options, PipelineOrder order);

  // If it throws, tells the other ranks.
  PipelineResult run(StepKind kind, const PipelineBatch& batch);
  bool has_loss() const { return static_cast<bool>(loss_); }

 private:
  struct Step;

  PipelineResult perform(StepKind kind, const PipelineBatch& batch);
  void forward(Step& step, int microbatch);
  void backward(Step& step, int microbatch);
  std::vector<TensorList> leaves_of(const TensorList& args, bool trains) const;
  void continue_backward(Step& step, const TensorList& args);
  void check_outputs(const TensorList& outputs) const;
  at::Tensor loss_of(const TensorList& outputs, const at::Tensor& target) const;

  const std::shared_ptr<const PipelineStageState> stage_;
  const int microbatches_;
  const PipelineLoss loss_;
  const PipelineScheduleOptions options_;
  const PipelineOrder order_;
  StageMessages messages_;
};

}  // namespace distrun::internal
