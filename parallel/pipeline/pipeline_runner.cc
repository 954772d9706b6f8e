#include "parallel/pipeline/pipeline_runner.h"

#include <cstddef>
#include <string>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/autograd.h>

#include "distrun/process_group.h"
#include "parallel/failure/group_failure.h"

namespace distrun::internal {

namespace {

using Kind = PipelineAction::Kind;

std::string rank_and_stage(const StagePlace& place) {
  return c10::str("pipeline on rank ", get_rank(), ", stage ", place.index, ": ");
}

}  // namespace

struct PipelineRunner::Step {
  // From its forward to the end of its backward.
  struct Microbatch {
    TensorList inputs;     // Leaves of its graph.
    TensorList outputs;    // On the last stage, the loss.
    TensorList gradients;  // Of the inputs.
  };

  StepKind kind;
  std::vector<TensorList> args;  // On the first stage.
  TensorList targets;            // On the last stage, if it computes a loss.
  bool returns_outputs;
  std::vector<Microbatch> microbatches;
  std::vector<TensorList> outputs;  // Of the last stage.
  TensorList losses;

  bool trains() const { return kind == StepKind::kTrain; }
  Microbatch& at(int index) { return microbatches[static_cast<std::size_t>(index)]; }
};

PipelineRunner::PipelineRunner(std::shared_ptr<const PipelineStageState> stage, int microbatches,
                               PipelineLoss loss, const PipelineScheduleOptions& options,
                               PipelineOrder order)
    : stage_(std::move(stage)),
      microbatches_(microbatches),
      loss_(std::move(loss)),
      options_(options),
      order_(std::move(order)),
      messages_(stage_->group, stage_->place, stage_->device, microbatches) {}

PipelineResult PipelineRunner::run(StepKind kind, const PipelineBatch& batch) {
  try {
    return perform(kind, batch);
  } catch (...) {
    if (stage_->place.count == 1) throw;
    rethrow_as_reported("pipeline", stage_->group, get_rank());
  }
}

PipelineResult PipelineRunner::perform(StepKind kind, const PipelineBatch& batch) {
  const StagePlace& place = stage_->place;
  const bool trains = kind == StepKind::kTrain;
  TORCH_CHECK(!trains || at::GradMode::is_enabled(), rank_and_stage(place),
              "step() needs gradients, which a NoGradGuard has disabled; call eval() instead");
  Step step{kind, {}, {}, batch.return_outputs, {}, {}, {}};
  step.microbatches.resize(static_cast<std::size_t>(microbatches_));
  std::vector<ActivationFactsList> facts;
  if (place.is_first()) {
    TORCH_CHECK_VALUE(!batch.args.empty(), rank_and_stage(place),
                      "the first stage needs args, but there are none");
    step.args = leaves_of(batch.args, trains);
    for (const TensorList& one : step.args) facts.push_back(facts_of(one));
  }
  if (place.is_last() && has_loss() && (trains || batch.target.defined())) {
    step.targets = split_batch(rank_and_stage(place) + "target", batch.target, microbatches_);
  }
  messages_.begin(kind, std::move(facts));

  const at::AutoGradMode gradients(trains);
  for (const auto& [action, microbatch] : trains ? order_ : forward_order(place, microbatches_)) {
    switch (action) {
      case Kind::kReceiveInput:
        messages_.receive_input(microbatch);
        break;
      case Kind::kForward:
        forward(step, microbatch);
        break;
      case Kind::kSendOutput:
        messages_.send_output(microbatch, step.at(microbatch).outputs);
        break;
      case Kind::kReceiveGradient:
        messages_.receive_gradient(microbatch);
        break;
      case Kind::kBackward:
        backward(step, microbatch);
        break;
      case Kind::kSendGradient:
        messages_.send_gradient(microbatch, std::exchange(step.at(microbatch).gradients, {}));
        break;
    }
    if (!trains && action == Kind::kSendOutput) step.at(microbatch) = {};
  }
  messages_.finish();
  if (place.is_first() && trains) continue_backward(step, batch.args);
  return {merge_batches(step.outputs), std::move(step.losses)};
}

void PipelineRunner::forward(Step& step, int microbatch) {
  Step::Microbatch& its = step.at(microbatch);
  const auto index = static_cast<std::size_t>(microbatch);
  const StagePlace& place = stage_->place;
  its.inputs =
      place.is_first() ? std::exchange(step.args[index], {}) : messages_.wait_for_input(microbatch);
  TensorList outputs = stage_->calls.forward(its.inputs, microbatch == microbatches_ - 1);
  if (!place.is_last()) {
    check_outputs(outputs);
    its.outputs = std::move(outputs);
    return;
  }
  if (!step.trains()) its.inputs.clear();
  if (!step.targets.empty()) {
    its.outputs = {loss_of(outputs, std::exchange(step.targets[index], {}))};
    TORCH_CHECK_VALUE(
        !step.trains() || its.outputs.front().requires_grad(), rank_and_stage(stage_->place),
        "the loss requires no gradient: neither the last stage nor an earlier one has "
        "parameters that do, or the loss function detaches them");
    step.losses.push_back(its.outputs.front().detach());
  }
  if (!step.returns_outputs) return;
  std::erase_if(outputs, [](const at::Tensor& one) { return !one.defined(); });
  for (at::Tensor& one : outputs) one = one.detach();
  step.outputs.push_back(std::move(outputs));
}

void PipelineRunner::backward(Step& step, int microbatch) {
  Step::Microbatch& its = step.at(microbatch);
  TensorList roots, gradients;
  if (stage_->place.is_last()) {
    roots = std::move(its.outputs);
    gradients = {at::full_like(roots.front(), options_.scale_grads ? 1.0 / microbatches_ : 1.0)};
  } else {
    const TensorList received = messages_.wait_for_gradient(microbatch);
    for (std::size_t i = 0; i < received.size(); ++i) {
      if (!received[i].defined()) continue;
      roots.push_back(its.outputs[i]);
      gradients.push_back(received[i]);
    }
    its.outputs.clear();
  }
  if (!roots.empty()) {
    if (microbatch == microbatches_ - 1) {
      roots = stage_->calls.before_last_backward(std::move(roots));
    }
    torch::autograd::backward(roots, gradients);
  }
  for (const at::Tensor& one : std::exchange(its.inputs, {})) its.gradients.push_back(one.grad());
}

// The args may have a graph, through which only one backward can run. So each micro-batch gets
// leaves, whose gradients continue_backward() puts together.
std::vector<TensorList> PipelineRunner::leaves_of(const TensorList& args, bool trains) const {
  auto parts = split_batches(rank_and_stage(stage_->place) + "args", args, microbatches_);
  for (TensorList& part : parts) {
    for (at::Tensor& one : part) one = one.detach().requires_grad_(trains && one.requires_grad());
  }
  return parts;
}

void PipelineRunner::continue_backward(Step& step, const TensorList& args) {
  TensorList roots, gradients;
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (!args[i].requires_grad()) continue;
    TensorList parts = args[i].detach().tensor_split(microbatches_, 0);
    for (std::size_t k = 0; k < parts.size(); ++k) {
      const at::Tensor& its = step.microbatches[k].gradients[i];
      parts[k] = its.defined() ? its : at::zeros_like(parts[k]);
    }
    roots.push_back(args[i]);
    gradients.push_back(at::cat(parts));
  }
  if (!roots.empty()) torch::autograd::backward(roots, gradients);
}

void PipelineRunner::check_outputs(const TensorList& outputs) const {
  TORCH_CHECK_VALUE(!outputs.empty(), rank_and_stage(stage_->place),
                    "forward() returns no tensor for the next stage");
  for (const at::Tensor& one : outputs) {
    TORCH_CHECK_VALUE(one.defined(), rank_and_stage(stage_->place),
                      "forward() returns an undefined tensor, which the next stage cannot receive");
  }
}

at::Tensor PipelineRunner::loss_of(const TensorList& outputs, const at::Tensor& target) const {
  at::Tensor loss = loss_(outputs, target);
  TORCH_CHECK_VALUE(loss.defined() && loss.numel() == 1, rank_and_stage(stage_->place),
                    "the loss function returns ",
                    loss.defined() ? c10::str("sizes ", loss.sizes()) : "an undefined tensor",
                    "; expected one element");
  return loss;
}

}  // namespace distrun::internal
