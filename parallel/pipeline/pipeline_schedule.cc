#include "distrun/pipeline_schedule.h"

#include <utility>

#include <c10/util/Exception.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/nn/module.h>

#include "backends/group/run_collective.h"
#include "distrun/process_group.h"
#include "parallel/pipeline/pipeline_order.h"
#include "parallel/pipeline/pipeline_runner.h"

namespace distrun {

namespace {

at::Device device_for(const torch::nn::Module& module, const PipelineStageOptions& options) {
  if (options.device) return *options.device;
  const auto parameters = module.parameters();
  return parameters.empty() ? at::Device(at::kCPU) : parameters.front().device();
}

// It would reduce in the backward of a micro-batch, and with too few of them.
void check_no_inner_reducer(const torch::nn::Module& module) {
  for (const auto& one : module.named_parameters()) {
    const auto accumulator = torch::autograd::impl::try_get_grad_accumulator(one.value());
    TORCH_CHECK_VALUE(!accumulator || accumulator->post_hooks().empty(), "PipelineStage on rank ",
                      get_rank(), ": a DistributedDataParallel reduces parameter '", one.key(),
                      "'; make it the module of the stage, with nothing around it");
  }
}

}  // namespace

PipelineStageBase::PipelineStageBase(const std::shared_ptr<torch::nn::Module>& module,
                                     internal::PipelineStageCalls calls, int stage_index,
                                     int num_stages, const PipelineStageOptions& options) {
  const Group& group = options.group;
  TORCH_CHECK_VALUE(module, "PipelineStage: the module is null");
  TORCH_CHECK_VALUE(group.is_member(), "PipelineStage: rank ", get_rank(),
                    " is not in the group of the pipeline");
  TORCH_CHECK_VALUE(num_stages == get_world_size(group), "PipelineStage on rank ", get_rank(),
                    ": num_stages is ", num_stages, "; expected ", get_world_size(group),
                    ", the number of ranks in the group");
  TORCH_CHECK_VALUE(stage_index == get_rank(group), "PipelineStage on rank ", get_rank(),
                    ": stage_index is ", stage_index, "; expected ", get_rank(group),
                    ", the rank in the group");
  if (!calls.has_reducer) check_no_inner_reducer(*module);
  state_ = std::make_shared<const internal::PipelineStageState>(
      internal::PipelineStageState{std::move(calls),
                                   {stage_index, num_stages},
                                   internal::pinned(group),
                                   device_for(*module, options)});
}

int PipelineStageBase::stage_index() const { return state_->place.index; }
int PipelineStageBase::num_stages() const { return state_->place.count; }
const Group& PipelineStageBase::group() const { return state_->group; }
c10::Device PipelineStageBase::device() const { return state_->device; }

void PipelineLoss::check_one(std::size_t outputs) {
  TORCH_CHECK_VALUE(outputs == 1, "pipeline on rank ", get_rank(), ": the last stage has ", outputs,
                    " outputs, but the loss function takes one tensor; let it take a "
                    "std::vector<at::Tensor>");
}

PipelineSchedule::PipelineSchedule(Kind kind, const PipelineStageBase& stage, int n_microbatches,
                                   PipelineLoss loss, const PipelineScheduleOptions& options) {
  TORCH_CHECK_VALUE(n_microbatches > 0, "pipeline on rank ", get_rank(), ": n_microbatches is ",
                    n_microbatches, "; expected 1 or more");
  const internal::StagePlace& place = stage.state_->place;
  auto order = kind == Kind::kGPipe ? internal::gpipe_order(place, n_microbatches)
                                    : internal::one_f_one_b_order(place, n_microbatches);
  runner_ = std::make_unique<internal::PipelineRunner>(stage.state_, n_microbatches,
                                                       std::move(loss), options, std::move(order));
}

PipelineSchedule::~PipelineSchedule() = default;
PipelineSchedule::PipelineSchedule(PipelineSchedule&&) noexcept = default;
PipelineSchedule& PipelineSchedule::operator=(PipelineSchedule&&) noexcept = default;

PipelineResult PipelineSchedule::step(const PipelineBatch& batch) {
  using internal::StepKind;
  return runner_->run(runner_->has_loss() ? StepKind::kTrain : StepKind::kForward, batch);
}

PipelineResult PipelineSchedule::eval(const PipelineBatch& batch) {
  return runner_->run(internal::StepKind::kForward, batch);
}

}  // namespace distrun
