#include "distrun/model_averager.h"

#include <cstddef>
#include <iterator>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>
#include <torch/optim/optimizer.h>

#include "distrun/collectives.h"
#include "distrun/process_group.h"

namespace distrun {

namespace {

// Two groups that use the device at the same time can wait for each other, so the collectives of
// other groups must have ended.
void wait_for_device(const c10::Device& device) {
  if (device.is_cpu()) return;
  c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
}

void warn_of_period_of_one(const char* averager) {
  TORCH_WARN(averager,
             ": with a period of 1, averaging sends as much as DistributedDataParallel does "
             "without a hook; use DistributedDataParallel alone, or a greater period");
}

void check_params(const std::vector<at::Tensor>& params) {
  for (std::size_t i = 0; i < params.size(); ++i) {
    TORCH_CHECK_TYPE(params[i].defined(), "average_parameters: parameter ", i, " is undefined");
    TORCH_CHECK_TYPE(params[i].is_floating_point() || params[i].is_complex(),
                     "average_parameters: parameter ", i, " has dtype ", params[i].scalar_type(),
                     "; expected a floating point or complex dtype");
  }
}

void check_warmup_steps(std::int64_t warmup_steps, const char* averager) {
  TORCH_CHECK_VALUE(warmup_steps >= 0, averager, ": warmup_steps is ", warmup_steps,
                    "; expected 0 or more");
}

}  // namespace

std::vector<at::Tensor> get_params_to_average(const std::vector<at::Tensor>& params) {
  std::vector<at::Tensor> found;
  for (const at::Tensor& param : params) {
    if (param.grad().defined()) found.push_back(param);
  }
  return found;
}

std::vector<at::Tensor> get_params_to_average(const ParamGroups& param_groups) {
  std::vector<at::Tensor> found;
  for (const auto& param_group : param_groups) {
    auto some = get_params_to_average(param_group.params());
    found.insert(found.end(), std::make_move_iterator(some.begin()),
                 std::make_move_iterator(some.end()));
  }
  return found;
}

void average_parameters(const std::vector<at::Tensor>& params, const Group& process_group) {
  if (params.empty() || !process_group.is_member()) return;
  const at::NoGradGuard no_grad;
  check_params(params);
  std::vector<at::Tensor> flat_params;
  flat_params.reserve(params.size());
  for (const at::Tensor& param : params) flat_params.push_back(param.reshape({-1}));
  const at::Tensor flat = at::cat(flat_params);
  flat.div_(get_world_size(process_group));
  wait_for_device(flat.device());
  all_reduce(flat, ReduceOp::SUM, {.group = process_group});
  std::int64_t begin = 0;
  for (const at::Tensor& param : params) {
    param.copy_(flat.narrow(0, begin, param.numel()).view(param.sizes()));
    begin += param.numel();
  }
}

namespace {

void average_found(const std::vector<at::Tensor>& params, const Group& process_group) {
  if (params.empty()) {
    TORCH_WARN_ONCE(
        "average_parameters: no parameter has a gradient, so none is averaged; call it "
        "before zero_grad()");
  }
  average_parameters(params, process_group);
}

}  // namespace

void average_parameters_or_parameter_groups(const std::vector<at::Tensor>& params,
                                            const Group& process_group) {
  average_found(get_params_to_average(params), process_group);
}

void average_parameters_or_parameter_groups(const ParamGroups& param_groups,
                                            const Group& process_group) {
  average_found(get_params_to_average(param_groups), process_group);
}

ModelAverager::~ModelAverager() = default;

void ModelAverager::average_parameters(const std::vector<at::Tensor>& params) {
  if (const auto group = find_process_group()) {
    average_parameters_or_parameter_groups(params, *group);
  }
  ++step_;
}

void ModelAverager::average_parameters(const ParamGroups& param_groups) {
  if (const auto group = find_process_group()) {
    average_parameters_or_parameter_groups(param_groups, *group);
  }
  ++step_;
}

PeriodicModelAverager::PeriodicModelAverager(const PeriodicModelAveragerOptions& options)
    : options_(options) {
  check_warmup_steps(options.warmup_steps, "PeriodicModelAverager");
  TORCH_CHECK_VALUE(options.period >= 1, "PeriodicModelAverager: period is ", options.period,
                    "; expected 1 or more");
  if (options.period == 1) warn_of_period_of_one("PeriodicModelAverager");
}

std::optional<Group> PeriodicModelAverager::find_process_group() const {
  const std::int64_t since_warmup = step() - options_.warmup_steps;
  if (since_warmup < 0 || since_warmup % options_.period != 0) return std::nullopt;
  return options_.process_group;
}

HierarchicalModelAverager::HierarchicalModelAverager(
    const HierarchicalModelAveragerOptions& options)
    : warmup_steps_(options.warmup_steps) {
  const auto& sizes = options.period_group_size;
  check_warmup_steps(options.warmup_steps, "HierarchicalModelAverager");
  TORCH_CHECK_VALUE(!sizes.empty(),
                    "HierarchicalModelAverager: period_group_size is empty; expected pairs of a "
                    "period and a number of ranks");
  std::int64_t previous = 0;
  for (const auto& [period, size] : sizes) {
    TORCH_CHECK_VALUE(period > previous, "HierarchicalModelAverager: the period ", period,
                      " follows ", previous, "; expected periods that are positive and increase");
    previous = period;
  }
  // Also known on ranks outside the group, which help to create the subgroups.
  const auto ranks = static_cast<int>(get_process_group_ranks(options.process_group).size());
  TORCH_CHECK_VALUE(sizes.back().second == ranks,
                    "HierarchicalModelAverager: the last number of ranks in period_group_size is ",
                    sizes.back().second, "; expected ", ranks,
                    ", the number of ranks in process_group");
  if (sizes.back().first == 1) warn_of_period_of_one("HierarchicalModelAverager");
  groups_.reserve(sizes.size());
  for (const auto& [period, size] : sizes) {
    std::optional<Group> group = options.process_group;
    if (size != ranks) group = new_subgroups(size, options.process_group).own;
    groups_.emplace_back(period, std::move(group));
  }
}

std::optional<Group> HierarchicalModelAverager::find_process_group() const {
  if (step() < warmup_steps_) return std::nullopt;
  for (auto group = groups_.rbegin(); group != groups_.rend(); ++group) {
    if (step() % group->first == 0) return group->second;
  }
  return std::nullopt;
}

}  // namespace distrun
