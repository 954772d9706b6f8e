// Schedules run the steps of a pipeline, whose stages are on different ranks (pipeline.h).
//
//     Schedule1F1B schedule(stage, /*n_microbatches=*/8, cross_entropy);
//     for (const auto& [images, digits] : batches) {
//       optimizer.zero_grad();
//       const PipelineResult result = schedule.step({.args = {images}, .target = digits});
//       optimizer.step();
//       if (stage.is_last()) std::cout << mean_of(result.losses) << "\n";
//     }
//
// A step splits the batch into micro-batches along dimension 0.  While a stage computes one
// micro-batch, other stages compute others.  If the number of micro-batches does not divide the
// size of the batch, the first micro-batches have one more element.
//
//     schedule        order of a stage                         micro-batches in memory, on stage s
//     ScheduleGPipe   all forwards, then all backwards         all
//     Schedule1F1B    a backward as soon as it is possible     at most num_stages - s
//
// Both compute the same gradients and need the same time.  Schedule1F1B needs less memory.  With n
// micro-batches and s stages, a stage computes during n / (n + s - 1) of the step, so use many more
// micro-batches than stages.
//
// Tensors between stages can have any sizes and dtypes, which need not be declared: the first step
// announces them.  A later step may have a batch of another size; then it announces them again.
// The sizes of outputs may depend only on the sizes of inputs.
//
// Blocks: until this rank has done its part of the step.
// Throws: if a function of a schedule throws on one rank, such as in forward() of a stage, it ends
// the group (abort_process_group()).  The other ranks then throw c10::DistError in the same step
// or, if they have done their part, in the next one.  The text names the rank that failed first,
// and contains its error.  After an exception, a schedule cannot be used.  In the default group, an
// error ends all groups, so give the pipeline its own group.  A batch with
// fewer elements than micro-batches is such an error: leave out a short last batch.
// Thread safety: one thread at a time for each group.
// PyTorch source: torch/distributed/pipelining/schedules.py.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "distrun/group.h"

namespace torch::nn {
class Module;
}

namespace distrun {

namespace internal {

struct PipelineStageState;
class PipelineRunner;

// How a stage calls its module.
struct PipelineStageCalls {
  std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& inputs, bool is_last)>
      forward;
  // Prepares the module for the last backward of a step. Returns tensors to use instead.
  std::function<std::vector<at::Tensor>(std::vector<at::Tensor> outputs)> before_last_backward;
  // Whether the module is a DistributedDataParallel.
  bool has_reducer = false;
};

}  // namespace internal

// Options of a PipelineStage.
struct PipelineStageOptions {
  // The ranks of the pipeline.  Stage i is on group rank i.
  Group group = {};
  // The device of the tensors that this stage receives.  If it is not set, it is the device of the
  // first parameter of the module, or the CPU.
  std::optional<c10::Device> device = std::nullopt;
};

// The part of PipelineStage that does not depend on the class of the module.
class PipelineStageBase {
 public:
  // Returns the number of this stage, from 0.
  int stage_index() const;
  // Returns the number of stages.
  int num_stages() const;
  // Returns whether this is the first stage, which gets the inputs of the model.
  bool is_first() const { return stage_index() == 0; }
  // Returns whether this is the last stage, which computes the loss.
  bool is_last() const { return stage_index() == num_stages() - 1; }
  // Returns the group of the pipeline.
  const Group& group() const;
  // Returns the device of the tensors that this stage receives.
  c10::Device device() const;

 protected:
  // Checks the arguments.
  PipelineStageBase(const std::shared_ptr<torch::nn::Module>& module,
                    internal::PipelineStageCalls calls, int stage_index, int num_stages,
                    const PipelineStageOptions& options);

 private:
  friend class PipelineSchedule;
  std::shared_ptr<const internal::PipelineStageState> state_;
};

// A loss function.  It converts from any callable that takes the output of the last stage and the
// target, and returns a tensor with one element.  If the last stage has several outputs, the
// callable takes a std::vector<at::Tensor>.
class PipelineLoss {
 public:
  // Creates an empty object, which computes no loss.
  PipelineLoss() = default;
  // Stores a copy of the function.  The conversion is implicit, so that callers can pass a lambda.
  template <class Function>
  requires std::invocable<Function&, const at::Tensor&, const at::Tensor&> PipelineLoss(
      Function function)  // NOLINT(google-explicit-constructor)
      : function_([its = std::move(function)](const std::vector<at::Tensor>& outputs,
                                              const at::Tensor& target) mutable -> at::Tensor {
          check_one(outputs.size());
          return its(outputs.front(), target);
        }) {}
  // Does the same for a function of several outputs.
  template <class Function>
  requires(!std::invocable<Function&, const at::Tensor&, const at::Tensor&> &&
           std::invocable<Function&, const std::vector<at::Tensor>&, const at::Tensor&>)
      PipelineLoss(Function function)  // NOLINT(google-explicit-constructor)
      : function_(std::move(function)) {}

  // Returns whether the object has a function.
  explicit operator bool() const { return static_cast<bool>(function_); }
  // Calls the function.
  at::Tensor operator()(const std::vector<at::Tensor>& outputs, const at::Tensor& target) const {
    return function_(outputs, target);
  }

 private:
  static void check_one(std::size_t outputs);

  std::function<at::Tensor(const std::vector<at::Tensor>&, const at::Tensor&)> function_;
};

// Options of a schedule.
struct PipelineScheduleOptions {
  // If true, gradients are those of the mean of the losses of all micro-batches.  This is right for
  // a loss that is itself a mean.  If false, gradients are those of the sum.
  bool scale_grads = true;
};

// The arguments of a step.  Each rank may pass all of them.
struct PipelineBatch {
  // The arguments of the first stage's forward(), used on the first rank.  If one of them requires
  // a gradient, step() computes it, too.
  std::vector<at::Tensor> args = {};
  // The target of the loss, used on the last rank.
  at::Tensor target = {};
  // Whether the last rank returns the outputs.
  bool return_outputs = true;
};

// The result of a step.
struct PipelineResult {
  // On the last rank: the outputs of the last stage for the whole batch, without a graph.
  std::vector<at::Tensor> outputs = {};
  // On the last rank: the loss of each micro-batch, without a graph.
  std::vector<at::Tensor> losses = {};
};

// The base of the schedules below.
class PipelineSchedule {
 public:
  ~PipelineSchedule();
  PipelineSchedule(PipelineSchedule&&) noexcept;
  PipelineSchedule& operator=(PipelineSchedule&&) noexcept;

  // Runs one step on all stages, and adds to the gradients of the parameters.  Every rank of the
  // group must call it.  If the schedule has no loss function, does the same as eval().
  //
  // Shapes: `args` and `target` have the batch along dimension 0, with at least one element for
  // each micro-batch.
  // Throws: c10::ValueError if `args` or `target` is missing or too small, if the loss has several
  // elements, if two stages do not run the same function with the same number of micro-batches, or
  // if the outputs of a stage have other sizes than before and its inputs have the same.
  // Also throws c10::Error under torch::NoGradGuard.
  // Cost: an output and its gradient for each micro-batch, between each two neighbours.  Also sends
  // 32 bytes at the start, and the sizes if they have changed.  Sends do not block the computation.
  PipelineResult step(const PipelineBatch& batch = {});

  // Runs only the forwards, without gradients.  Computes losses if the schedule has a loss function
  // and `target` is defined.  (To change the behaviour of modules such as dropout, call the
  // module's own eval().)
  //
  // Shapes: as step().
  // Throws: as step().
  PipelineResult eval(const PipelineBatch& batch = {});

 protected:
  // The kinds of schedules.
  enum class Kind { kGPipe, k1F1B };
  // Checks the arguments.
  PipelineSchedule(Kind kind, const PipelineStageBase& stage, int n_microbatches, PipelineLoss loss,
                   const PipelineScheduleOptions& options);

 private:
  std::unique_ptr<internal::PipelineRunner> runner_;
};

// Runs all forwards, and then all backwards.
class ScheduleGPipe : public PipelineSchedule {
 public:
  // Every rank must pass a loss function if the last rank does.  Only the last rank calls it.
  //
  // Throws: c10::ValueError if `n_microbatches` is not positive.
  ScheduleGPipe(const PipelineStageBase& stage, int n_microbatches, PipelineLoss loss_fn = {},
                const PipelineScheduleOptions& options = {})
      : PipelineSchedule(Kind::kGPipe, stage, n_microbatches, std::move(loss_fn), options) {}
};

// Runs a backward as soon as it is possible, and otherwise forwards.
class Schedule1F1B : public PipelineSchedule {
 public:
  // As the constructor of ScheduleGPipe.
  //
  // Throws: c10::ValueError if `n_microbatches` is not positive.
  Schedule1F1B(const PipelineStageBase& stage, int n_microbatches, PipelineLoss loss_fn = {},
               const PipelineScheduleOptions& options = {})
      : PipelineSchedule(Kind::k1F1B, stage, n_microbatches, std::move(loss_fn), options) {}
};

}  // namespace distrun
