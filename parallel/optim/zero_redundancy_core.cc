#include "distrun/detail/zero_redundancy_core.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <typeinfo>
#include <unordered_map>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>
#include <c10/util/Exception.h>
#include <c10/util/Type.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "distrun/collectives.h"
#include "distrun/process_group.h"
#include "parallel/agreement/rank_agreement.h"
#include "parallel/optim/optimizer_archive.h"
#include "parallel/optim/optimizer_facts.h"
#include "parallel/optim/parameter_partition.h"
#include "parallel/optim/parameter_sync.h"

namespace distrun::internal {

struct PartitionedGroup {
  std::vector<at::Tensor> parameters;
  std::vector<int> owners;

  std::vector<at::Tensor> of(int rank) const {
    std::vector<at::Tensor> own;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (owners[i] == rank) own.push_back(parameters[i]);
    }
    return own;
  }
};

namespace {

constexpr const char *kName = "ZeroRedundancyOptimizer",
                     *kRequirement = "have the same parameters and options";

constexpr int kRepeated = -1;  // The owner of a parameter that stands earlier in its group.

bool is_same_list(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  return std::equal(
      a.begin(), a.end(), b.begin(), b.end(),
      [](const at::Tensor& one, const at::Tensor& other) { return one.is_same(other); });
}

void erase_frozen(std::vector<at::Tensor>& parameters) {
  std::erase_if(parameters, [](const at::Tensor& one) { return !one.requires_grad(); });
}

// While it lives, the optimizer has only the parameters that this rank updates.
class OwnParametersOnly {
 public:
  OwnParametersOnly(torch::optim::Optimizer& optimizer, const std::vector<PartitionedGroup>& groups,
                    int rank)
      : optimizer_(optimizer) {
    for (std::size_t g = 0; g < groups.size(); ++g) {
      others_.push_back(groups[g].of(rank));
      erase_frozen(others_.back());
    }
    swap();
  }
  OwnParametersOnly(const OwnParametersOnly&) = delete;
  OwnParametersOnly& operator=(const OwnParametersOnly&) = delete;
  ~OwnParametersOnly() { swap(); }

 private:
  void swap() {
    for (std::size_t g = 0; g < others_.size(); ++g) {
      std::swap(optimizer_.param_groups()[g].params(), others_[g]);
    }
  }

  torch::optim::Optimizer& optimizer_;
  std::vector<std::vector<at::Tensor>> others_;
};

class StepHook : public JoinHook {
 public:
  explicit StepHook(std::function<void()> step) : step_(std::move(step)) {}
  void main_hook() override { step_(); }

 private:
  std::function<void()> step_;
};

// The exception of a step on this rank, if it failed.
struct StepFailure {
  std::exception_ptr thrown;
  std::string text;
};

bool has_cpu_backend(const Group& group) {
  const std::vector<c10::Device> devices = group->getDeviceTypes();
  return std::any_of(devices.begin(), devices.end(),
                     [](const c10::Device& one) { return one.is_cpu(); });
}

// Of what the ranks must have in common to send their shares.
std::size_t hash_of(const Shares& shares) {
  std::size_t hash = 0;
  const auto add = [&](std::size_t one) { hash = (hash ^ one) * 0x9E3779B97F4A7C15; };
  for (const auto& share : shares) {
    add(share.size());
    for (const at::Tensor& one : share) {
      add(static_cast<std::size_t>(one.numel()));
      add(static_cast<std::size_t>(one.scalar_type()));
    }
  }
  return hash;
}

// Throws on every rank.
[[noreturn]] void throw_failure_of_step(const StepFailure& own, const Group& group) {
  const std::vector<std::string> texts =
      all_gather_bytes(own.thrown ? "failed: " + own.text : "", group);
  if (own.thrown) std::rethrow_exception(own.thrown);
  const auto failed =
      std::find_if(texts.begin(), texts.end(), [](const std::string& one) { return !one.empty(); });
  TORCH_CHECK_WITH(DistError, false, "ZeroRedundancyOptimizer: step() of rank ",
                   get_global_rank(group, static_cast<int>(failed - texts.begin())), " ", *failed);
}

}  // namespace

struct ZeroRedundancyCore::Impl {
  Impl(const ParamGroups& initial, const Group& its_group, bool has_buckets, Factory factory);

  void take_new_groups(const Optimizer& optimizer, const std::string& error = "");
  void partition(const ParamGroups& groups);
  void check_lists(const Optimizer& optimizer) const;
  at::Tensor step_here(Optimizer& optimizer, const Optimizer::LossClosure& closure,
                       const Step& step) const;
  void send_and_report(const StepFailure& failure);
  Shares shares() const;
  std::vector<at::Tensor> own_parameters() const;

  Group group;
  int rank, ranks;
  bool as_bucket_view;
  Factory make_plain;
  ParameterPartition next;
  ParameterSync sync;
  std::vector<PartitionedGroup> groups;
  std::unordered_map<const c10::TensorImpl*, int> owner_of;
  ParamGroups as_constructed;  // Until the optimizer has them.
};

ZeroRedundancyCore::Impl::Impl(const ParamGroups& initial, const Group& its_group, bool has_buckets,
                               Factory factory)
    : group(its_group),
      rank(group->getRank()),
      ranks(group->getSize()),
      as_bucket_view(has_buckets),
      make_plain(std::move(factory)),
      next(ranks),
      sync(group, has_buckets),
      as_constructed(initial) {
  std::string error, description;
  try {
    const std::unique_ptr<Optimizer> plain = make_plain({});
    error = error_in_groups(initial, 0, plain->defaults());
    if (error.empty()) {
      const Optimizer& its = *plain;
      description =
          c10::str(c10::demangle(typeid(its).name()), " with ", text_of_options(plain->defaults()),
                   "\nparameters_as_bucket_view ", as_bucket_view, "\n",
                   description_of_groups(initial, 0, as_bucket_view));
    }
  } catch (const std::exception& thrown) {
    error = text_of_exception(thrown);
  }
  check_agreement(kName, {description, error}, group, kRequirement);
  partition(initial);
}

// Assigns the groups that have no ranks yet.
void ZeroRedundancyCore::Impl::partition(const ParamGroups& all) {
  for (std::size_t g = groups.size(); g < all.size(); ++g) {
    const std::vector<at::Tensor>& parameters = all[g].params();
    std::vector<std::size_t> places;
    std::vector<std::int64_t> sizes;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (!owner_of.emplace(parameters[i].unsafeGetTensorImpl(), kRepeated).second) continue;
      places.push_back(i);
      sizes.push_back(parameters[i].numel());
    }
    const std::vector<int> owners = next.assign(sizes);
    groups.push_back({parameters, std::vector<int>(parameters.size(), kRepeated)});
    for (std::size_t i = 0; i < places.size(); ++i) {
      groups.back().owners[places[i]] = owners[i];
      owner_of[parameters[places[i]].unsafeGetTensorImpl()] = owners[i];
    }
  }
  sync.prepare(shares());
}

void ZeroRedundancyCore::Impl::take_new_groups(const Optimizer& optimizer,
                                               const std::string& error) {
  const ParamGroups& all = optimizer.param_groups();
  if (error.empty() && all.size() <= groups.size()) return;
  const std::string first =
      error.empty() ? error_in_groups(all, groups.size(), optimizer.defaults()) : error;
  const std::string lines =
      first.empty() ? description_of_groups(all, groups.size(), as_bucket_view) : "";
  check_agreement(kName, {lines, first}, group, kRequirement);
  partition(all);
}

void ZeroRedundancyCore::Impl::check_lists(const Optimizer& optimizer) const {
  const ParamGroups& all = optimizer.param_groups();
  for (std::size_t g = 0; g < groups.size(); ++g) {
    TORCH_CHECK_VALUE(g < all.size() && is_same_list(all[g].params(), groups[g].parameters),
                      "ZeroRedundancyOptimizer: the parameters of group ", g,
                      " were changed; add parameters with add_param_group()");
  }
}

Shares ZeroRedundancyCore::Impl::shares() const {
  Shares all(static_cast<std::size_t>(ranks));
  for (const PartitionedGroup& one : groups) {
    for (std::size_t i = 0; i < one.parameters.size(); ++i) {
      if (one.owners[i] == kRepeated || !one.parameters[i].requires_grad()) continue;
      all[static_cast<std::size_t>(one.owners[i])].push_back(one.parameters[i]);
    }
  }
  return all;
}

std::vector<at::Tensor> ZeroRedundancyCore::Impl::own_parameters() const {
  std::vector<at::Tensor> own;
  for (const PartitionedGroup& one : groups) {
    const std::vector<at::Tensor> its = one.of(rank);
    own.insert(own.end(), its.begin(), its.end());
  }
  return own;
}

// The closure sees all parameters, for example in its zero_grad(), so it runs before the step.
at::Tensor ZeroRedundancyCore::Impl::step_here(Optimizer& optimizer,
                                               const Optimizer::LossClosure& closure,
                                               const Step& step) const {
  check_lists(optimizer);
  if (!closure) {
    const OwnParametersOnly own(optimizer, groups, rank);
    return step(nullptr);
  }
  at::Tensor loss = [&] {
    const at::AutoGradMode with_gradients(true);
    return closure();
  }();
  const OwnParametersOnly own(optimizer, groups, rank);
  return step([&loss, is_evaluated = false]() mutable {
    TORCH_CHECK(!std::exchange(is_evaluated, true),
                "ZeroRedundancyOptimizer: the optimizer evaluates its closure more than once in a "
                "step, each rank perhaps a different number of times; use the plain optimizer");
    return loss;
  });
}

void ZeroRedundancyCore::Impl::send_and_report(const StepFailure& failure) {
  if (!has_cpu_backend(group)) {
    if (failure.thrown) std::rethrow_exception(failure.thrown);
    sync.start(shares()).finish();
    return;
  }
  // The largest and the smallest hash differ if ranks would send different parameters.
  const Shares to_send = shares();
  const auto hash = static_cast<std::int64_t>(hash_of(to_send) >> 1);
  const std::vector<std::int64_t> own = {failure.thrown ? 1 : 0, hash, -hash};
  const at::Tensor report = at::tensor(own, at::kLong);
  all_reduce(report, ReduceOp::MAX, {.group = group});
  const bool agree = report[1].item<std::int64_t>() == -report[2].item<std::int64_t>();
  TORCH_CHECK_VALUE(agree, "ZeroRedundancyOptimizer::step on rank ", get_rank(),
                    ": ranks would send different parameters; freeze parameters, and change their "
                    "dtype, on every rank");
  sync.start(to_send).finish();
  if (report[0].item<std::int64_t>() != 0) throw_failure_of_step(failure, group);
}

ZeroRedundancyCore::ZeroRedundancyCore(const ParamGroups& groups, const Group& group,
                                       bool as_bucket_view, Factory make_plain) {
  TORCH_CHECK_VALUE(group.is_member(), "ZeroRedundancyOptimizer: rank ", get_rank(),
                    " is not in its process_group");
  impl_ = std::make_unique<Impl>(groups, group, as_bucket_view, std::move(make_plain));
}

ZeroRedundancyCore::~ZeroRedundancyCore() = default;

ZeroRedundancyCore::ParamGroups ZeroRedundancyCore::own_groups() const {
  ParamGroups own = impl_->as_constructed;
  for (std::size_t g = 0; g < own.size(); ++g) own[g].params() = impl_->groups[g].of(impl_->rank);
  return own;
}

void ZeroRedundancyCore::show_all_parameters(Optimizer& optimizer) const {
  for (std::size_t g = 0; g < impl_->groups.size(); ++g) {
    optimizer.param_groups()[g].params() = impl_->groups[g].parameters;
  }
  impl_->as_constructed.clear();
}

at::Tensor ZeroRedundancyCore::step(Optimizer& optimizer, const Optimizer::LossClosure& closure,
                                    const Step& step) {
  impl_->take_new_groups(optimizer);
  at::Tensor loss;
  StepFailure failure;
  try {
    loss = impl_->step_here(optimizer, closure, step);
  } catch (const std::exception& thrown) {
    failure = {std::current_exception(), text_of_exception(thrown)};
  } catch (...) {
    failure = {std::current_exception(), "an exception that does not derive from std::exception"};
  }
  if (impl_->ranks == 1) {
    if (!failure.thrown) impl_->sync.prepare(impl_->shares());
  } else {
    try {
      impl_->send_and_report(failure);
    } catch (...) {
      if (!failure.thrown) throw;
    }
  }
  if (failure.thrown) std::rethrow_exception(failure.thrown);
  return loss;
}

void ZeroRedundancyCore::add_param_group(Optimizer& optimizer,
                                         const torch::optim::OptimizerParamGroup& group) {
  impl_->take_new_groups(optimizer);
  std::string error;
  try {
    optimizer.add_param_group(group);
  } catch (const std::exception& thrown) {
    error = text_of_exception(thrown);
  }
  try {
    impl_->take_new_groups(optimizer, error);
  } catch (...) {
    while (optimizer.param_groups().size() > impl_->groups.size()) {
      optimizer.param_groups().pop_back();
    }
    throw;
  }
}

std::unique_ptr<torch::optim::Optimizer> ZeroRedundancyCore::consolidated(Optimizer& optimizer,
                                                                          AnyRank to,
                                                                          const Save& save) {
  impl_->take_new_groups(optimizer);
  const std::vector<std::string> all = gather_bytes(optimizer_bytes(save), to, impl_->group);
  if (all.empty()) return nullptr;
  std::unique_ptr<Optimizer> whole = impl_->make_plain(optimizer.param_groups());
  whole->state().clear();
  for (const std::string& bytes : all) {
    load_optimizer_bytes(bytes, at::kCPU, [&](auto& archive) { whole->load(archive); });
  }
  for (std::size_t g = 0; g < impl_->groups.size(); ++g) {
    whole->param_groups()[g].set_options(optimizer.param_groups()[g].options().clone());
  }
  return whole;
}

void ZeroRedundancyCore::save(torch::serialize::OutputArchive& archive, const Save& save) const {
  save_share(archive, {impl_->rank, impl_->ranks}, save);
}

void ZeroRedundancyCore::load(Optimizer& optimizer, torch::serialize::InputArchive& archive,
                              const Load& load, const Save& save) {
  impl_->take_new_groups(optimizer);
  std::optional<torch::serialize::InputArchive> share =
      open_share(archive, {impl_->rank, impl_->ranks});
  const std::vector<at::Tensor> own = impl_->own_parameters();
  try {
    load(share ? *share : archive);
  } catch (...) {
    keep_state_of(own, optimizer);
    throw;
  }
  move_state_to(own, optimizer, save, load);
}

int ZeroRedundancyCore::rank_of(const at::Tensor& parameter) const {
  const auto found = impl_->owner_of.find(parameter.unsafeGetTensorImpl());
  TORCH_CHECK_VALUE(found != impl_->owner_of.end(),
                    "ZeroRedundancyOptimizer: rank_of() got a tensor that is not a parameter of "
                    "this optimizer");
  return found->second;
}

std::unique_ptr<JoinHook> ZeroRedundancyCore::join_hook(std::function<void()> step) {
  return std::make_unique<StepHook>(std::move(step));
}

c10::Device ZeroRedundancyCore::device() const {
  const auto first = std::find_if(impl_->groups.begin(), impl_->groups.end(),
                                  [](const auto& one) { return !one.parameters.empty(); });
  return first->parameters.front().device();
}

bool ZeroRedundancyCore::updates(const at::Tensor& parameter) const {
  return rank_of(parameter) == impl_->rank;
}

const Group& ZeroRedundancyCore::group() const { return impl_->group; }

}  // namespace distrun::internal
