// Model averagers average the parameters of several ranks from time to time.  Between two averages,
// the ranks train alone or in small groups (post_local_sgd_hook.h), so they send less.
//
//     PeriodicModelAverager averager({.period = 4, .warmup_steps = 100});
//     for (…) {
//       loss(ddp(images), digits).backward();
//       optimizer.step();
//       averager.average_parameters(ddp.parameters());    // Averages in steps 100, 104, 108, …
//     }
//
// PostLocalSGDOptimizer (post_local_sgd_optimizer.h) calls the averager after each step.
//
// Only parameters that have a gradient are averaged.  All ranks of the group must have gradients
// for the same parameters, on one device.  If they have not, the ranks compute wrong values, time
// out or abort.  Nothing checks this, because ranks in Python would not take part in the check.  If
// no parameter has a gradient, as after zero_grad(), a warning says so.  The
// parameters keep their memory.
//
// Thread safety: one thread at a time.
// PyTorch source: torch/distributed/algorithms/model_averaging/averagers.py,
// hierarchical_model_averager.py, utils.py.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "distrun/group.h"

namespace torch::optim {
class OptimizerParamGroup;
}

namespace distrun {

// The parameter groups of an optimizer, as torch::optim::Optimizer::param_groups() returns them.
using ParamGroups = std::vector<torch::optim::OptimizerParamGroup>;

// Returns the parameters that have a gradient.
std::vector<at::Tensor> get_params_to_average(const std::vector<at::Tensor>& params);
// Does the same with the parameters of all parameter groups of an optimizer.
std::vector<at::Tensor> get_params_to_average(const ParamGroups& param_groups);

// Replaces the values of all parameters by their mean over the ranks of the group.  Does nothing if
// this rank is not a member, or if the list is empty.
//
// Shapes: the parameters are on one device.  If their dtypes differ, the mean is computed in the
// dtype to which all of them can be converted.
// Blocks: until all ranks of the group have called it.
// Throws: c10::TypeError if a parameter is undefined or has integers or booleans.
// Also throws the exceptions of all_reduce() (collectives.h).
// Cost: one all_reduce of all parameters, and a copy of them.
void average_parameters(const std::vector<at::Tensor>& params, const Group& process_group = {});

// Calls average_parameters() with the parameters that have a gradient.
//
// Blocks: as average_parameters().
// Throws: as average_parameters().
// Cost: as average_parameters().
void average_parameters_or_parameter_groups(const std::vector<at::Tensor>& params,
                                            const Group& process_group = {});
// Does the same with the parameters of an optimizer.
void average_parameters_or_parameter_groups(const ParamGroups& param_groups,
                                            const Group& process_group = {});

// The base class of all averagers.  To write your own averager, override find_process_group().
class ModelAverager {
 public:
  virtual ~ModelAverager();
  ModelAverager(const ModelAverager&) = default;
  ModelAverager& operator=(const ModelAverager&) = default;

  // If this step averages, averages the parameters that have a gradient.  Then increases step() by
  // one.  Call it after each step of the optimizer.
  //
  // Blocks: as the function average_parameters(), if this step averages.
  // Throws: as the function average_parameters().
  // Cost: as the function average_parameters(), if this step averages.
  void average_parameters(const std::vector<at::Tensor>& params);
  // Does the same with the parameters of an optimizer.
  void average_parameters(const ParamGroups& param_groups);

  // Returns the number of calls of average_parameters().
  std::int64_t step() const { return step_; }
  // Sets step(), for example to continue a run.
  void set_step(std::int64_t step) { step_ = step; }

  // Returns the group in which step() averages, or nothing if it does not average.
  virtual std::optional<Group> find_process_group() const = 0;

 protected:
  ModelAverager() = default;

 private:
  std::int64_t step_ = 0;
};

// Options of PeriodicModelAverager.
struct PeriodicModelAveragerOptions {
  // The number of steps from one average to the next.  With 1, DistributedDataParallel alone does
  // the same at no greater cost.
  std::int64_t period = 1;
  // The number of steps before the first average.
  std::int64_t warmup_steps = 0;
  // The ranks whose parameters are averaged.  The default is all ranks.
  Group process_group = {};
};

// Averages every `period` steps.
class PeriodicModelAverager : public ModelAverager {
 public:
  // Creates an averager.  The constructor does not communicate.
  //
  // Throws: c10::ValueError if `period` is less than 1, or if `warmup_steps` is negative.
  explicit PeriodicModelAverager(const PeriodicModelAveragerOptions& options);

  // Returns `process_group` in steps `warmup_steps`, `warmup_steps` + `period`, ….
  std::optional<Group> find_process_group() const override;

 private:
  PeriodicModelAveragerOptions options_;
};

// Options of HierarchicalModelAverager.
struct HierarchicalModelAveragerOptions {
  // Pairs of a period and the number of ranks that average in this period.  The periods increase.
  // Consecutive ranks of `process_group` form a group.  The last number is the number of ranks in
  // `process_group`.
  std::vector<std::pair<std::int64_t, int>> period_group_size = {};
  // No step before this one averages.
  std::int64_t warmup_steps = 0;
  // The ranks that average.  The default is all ranks.
  Group process_group = {};
};

// Averages in small groups often, and in large groups rarely.
//
//     // 8 ranks each every 4 steps, all 16 ranks every 16 steps.
//     HierarchicalModelAverager averager({.period_group_size = {{4, 8}, {16, 16}},
//                                         .warmup_steps = 100});
//
// If several periods divide step(), the group of the longest one averages.  In contrast to
// PeriodicModelAverager, the periods count from step 0, and not from `warmup_steps`, as in Python.
class HierarchicalModelAverager : public ModelAverager {
 public:
  // Creates the groups.  Every rank of the run must call the constructor.
  //
  // Blocks: as new_subgroups().
  // Throws: c10::ValueError if `period_group_size` is empty, if the periods are not positive or do
  // not increase, if the last number is not that of the ranks, or if `warmup_steps` is negative.
  // Also throws the exceptions of new_subgroups(), for example if a number does not divide the
  // number of ranks.
  explicit HierarchicalModelAverager(const HierarchicalModelAveragerOptions& options);

  // Returns the group of the longest period that divides step().
  std::optional<Group> find_process_group() const override;

 private:
  std::int64_t warmup_steps_;
  // The groups that this rank is in, by their periods.
  std::vector<std::pair<std::int64_t, std::optional<Group>>> groups_;
};

}  // namespace distrun
