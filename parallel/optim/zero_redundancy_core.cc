#include "distrun/detail/zero_redundancy_core.h"

#include <exception>
#include <string>
#include <typeinfo>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>
#include <c10/util/Type.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "distrun/process_group.h"
#include "parallel/agreement/rank_agreement.h"
#include "parallel/optim/narrowed_groups.h"
#include "parallel/optim/optimizer_facts.h"
#include "parallel/optim/zero_redundancy_impl.h"

namespace distrun::internal {

namespace {

constexpr const char *kName = "ZeroRedundancyOptimizer",
                     *kRequirement = "have the same parameters and options";

class StepHook : public JoinHook {
 public:
  explicit StepHook(std::function<void()> step) : step_(std::move(step)) {}
  void main_hook() override { step_(); }

 private:
  std::function<void()> step_;
};

at::Tensor with_gradients(const torch::optim::Optimizer::LossClosure& closure) {
  const at::AutoGradMode enabled(true);
  return closure();
}

}  // namespace

ZeroRedundancyCore::Impl::Impl(const ParamGroups& initial, const Options& options, Factory factory)
    : group(options.group),
      rank(group->getRank()),
      ranks(group->getSize()),
      as_bucket_view(options.as_bucket_view),
      overlaps_with_ddp(options.overlaps_with_ddp),
      make_plain(std::move(factory)),
      sync(group, as_bucket_view),
      groups(rank, ranks),
      as_constructed(initial) {
  std::string error, description;
  try {
    const std::unique_ptr<Optimizer> plain = make_plain({});
    error = error_in_groups(initial, 0, plain->defaults());
    if (error.empty()) {
      const Optimizer& its = *plain;
      description =
          c10::str(c10::demangle(typeid(its).name()), " with ", text_of_options(plain->defaults()),
                   "\nparameters_as_bucket_view ", as_bucket_view, "\noverlap_with_ddp ",
                   overlaps_with_ddp, "\n", description_of_groups(initial, 0, as_bucket_view));
    }
  } catch (const std::exception& thrown) {
    error = text_of_exception(thrown);
  }
  check_agreement(kName, {description, error}, group, kRequirement);
  groups.add_new(initial);
  sync.prepare(groups.shares());
}

void ZeroRedundancyCore::Impl::take_new_groups(const std::string& error) {
  const ParamGroups& all = optimizer->param_groups();
  if (error.empty() && all.size() <= groups.size()) return;
  if (has_zero_hook()) check_groups();
  const std::string first =
      error.empty() ? error_in_groups(all, groups.size(), optimizer->defaults()) : error;
  const std::string lines =
      first.empty() ? description_of_groups(all, groups.size(), as_bucket_view) : "";
  check_agreement(kName, {lines, first}, group, kRequirement);
  groups.add_new(all);
  sync.prepare(groups.shares());
}

void ZeroRedundancyCore::Impl::check_groups() const {
  groups.check_lists(optimizer->param_groups());
  TORCH_CHECK_VALUE(!has_zero_hook() || optimizer->param_groups().size() == groups.size(),
                    "ZeroRedundancyOptimizer: a group was added after hook_with_zero_step(); add "
                    "groups before");
}

// The closure sees all parameters, for example in its zero_grad(), so it runs before the step.
at::Tensor ZeroRedundancyCore::Impl::step_here(const Optimizer::LossClosure& closure) const {
  check_groups();
  if (!closure) {
    const NarrowedGroups own(*optimizer, groups.own_to_update());
    return plain_step(nullptr);
  }
  at::Tensor loss = with_gradients(closure);
  const NarrowedGroups own(*optimizer, groups.own_to_update());
  return plain_step([&loss, is_evaluated = false]() mutable {
    TORCH_CHECK(!std::exchange(is_evaluated, true),
                "ZeroRedundancyOptimizer: the optimizer evaluates its closure more than once in a "
                "step, each rank perhaps a different number of times; use the plain optimizer");
    return loss;
  });
}

void ZeroRedundancyCore::Impl::send_and_report(const StepFailure& failure) {
  if (!has_cpu_backend(group)) {
    if (failure.thrown) std::rethrow_exception(failure.thrown);
    sync.start(groups.shares()).finish();
    return;
  }
  const Shares to_send = groups.shares();
  const bool has_failed = has_any_rank_failed(failure, hash_of(to_send), group);
  sync.start(to_send).finish();
  if (has_failed) throw_failure_of_step(failure, group);
}

at::Tensor ZeroRedundancyCore::Impl::step(const Optimizer::LossClosure& closure) {
  if (!has_zero_hook()) take_new_groups();
  at::Tensor loss;
  const StepFailure failure = failure_of([&] { loss = step_here(closure); });
  if (ranks == 1) {
    if (!failure.thrown) sync.prepare(groups.shares());
  } else {
    try {
      send_and_report(failure);
    } catch (...) {
      if (!failure.thrown) throw;
    }
  }
  if (failure.thrown) std::rethrow_exception(failure.thrown);
  return loss;
}

ZeroRedundancyCore::ZeroRedundancyCore(const ParamGroups& groups, const Options& options,
                                       Factory make_plain) {
  TORCH_CHECK_VALUE(options.group.is_member(), "ZeroRedundancyOptimizer: rank ", get_rank(),
                    " is not in its process_group");
  impl_ = std::make_shared<Impl>(groups, options, std::move(make_plain));
}

ZeroRedundancyCore::~ZeroRedundancyCore() = default;

ZeroRedundancyCore::ParamGroups ZeroRedundancyCore::own_groups() const {
  ParamGroups own = impl_->as_constructed;
  for (std::size_t g = 0; g < own.size(); ++g) own[g].params() = impl_->groups.own_of(g);
  return own;
}

void ZeroRedundancyCore::show_all_parameters(Optimizer& optimizer) const {
  for (std::size_t g = 0; g < impl_->groups.size(); ++g) {
    optimizer.param_groups()[g].params() = impl_->groups.parameters_of(g);
  }
  impl_->as_constructed.clear();
}

void ZeroRedundancyCore::set_optimizer(Optimizer& optimizer, Step step) {
  impl_->optimizer = &optimizer;
  impl_->plain_step = std::move(step);
}

at::Tensor ZeroRedundancyCore::step(const Optimizer::LossClosure& closure) {
  if (!impl_->overlaps_with_ddp) return impl_->step(closure);
  at::Tensor loss;
  if (closure) loss = with_gradients(closure);  // Its backward() updates the parameters.
  TORCH_CHECK(
      impl_->has_zero_hook(),
      "ZeroRedundancyOptimizer: step() does nothing with overlap_with_ddp, and no hook lets "
      "backward() update the parameters; register hook_with_zero_step() with the "
      "DistributedDataParallel");
  TORCH_WARN_ONCE(
      "ZeroRedundancyOptimizer: step() does nothing, because backward() updates the parameters "
      "(overlap_with_ddp)");
  return loss;
}

void ZeroRedundancyCore::add_param_group(Optimizer& optimizer,
                                         const torch::optim::OptimizerParamGroup& group) {
  TORCH_CHECK_VALUE(!impl_->has_zero_hook(),
                    "ZeroRedundancyOptimizer: add_param_group() after hook_with_zero_step(); add "
                    "groups before");
  impl_->take_new_groups();
  std::string error;
  try {
    optimizer.add_param_group(group);
  } catch (const std::exception& thrown) {
    error = text_of_exception(thrown);
  }
  try {
    impl_->take_new_groups(error);
  } catch (...) {
    while (optimizer.param_groups().size() > impl_->groups.size()) {
      optimizer.param_groups().pop_back();
    }
    throw;
  }
}

int ZeroRedundancyCore::rank_of(const at::Tensor& parameter) const {
  const auto place = impl_->groups.place_of(parameter);
  TORCH_CHECK_VALUE(place,
                    "ZeroRedundancyOptimizer: rank_of() got a tensor that is not a parameter of "
                    "this optimizer");
  return place->owner;
}

std::unique_ptr<JoinHook> ZeroRedundancyCore::join_hook(std::function<void()> step) const {
  TORCH_CHECK_VALUE(
      !impl_->overlaps_with_ddp,
      "join: a ZeroRedundancyOptimizer with overlap_with_ddp cannot take part, because "
      "a joined rank has no backward(); leave the option out, and call step()");
  return std::make_unique<StepHook>(std::move(step));
}

c10::Device ZeroRedundancyCore::device() const {
  std::size_t first = 0;
  while (impl_->groups.parameters_of(first).empty()) ++first;
  return impl_->groups.parameters_of(first).front().device();
}

bool ZeroRedundancyCore::updates(const at::Tensor& parameter) const {
  return rank_of(parameter) == impl_->rank;
}

const Group& ZeroRedundancyCore::group() const { return impl_->group; }

}  // namespace distrun::internal
