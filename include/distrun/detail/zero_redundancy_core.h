// The part of ZeroRedundancyOptimizer that does not depend on the class of the optimizer.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <torch/optim/optimizer.h>

#include "distrun/group.h"
#include "distrun/join.h"

namespace distrun::internal {

class ZeroRedundancyCore {
 public:
  using Optimizer = torch::optim::Optimizer;
  using ParamGroups = std::vector<torch::optim::OptimizerParamGroup>;
  // Constructs a plain optimizer with the defaults of this one.
  using Factory = std::function<std::unique_ptr<Optimizer>(const ParamGroups&)>;
  // The functions of the plain class, for this object.
  using Step = std::function<at::Tensor(Optimizer::LossClosure)>;
  using Save = std::function<void(torch::serialize::OutputArchive&)>;
  using Load = std::function<void(torch::serialize::InputArchive&)>;

  struct Options {
    Group group;
    bool as_bucket_view = false;
    bool overlaps_with_ddp = false;
  };

  ZeroRedundancyCore(const ParamGroups& groups, const Options& options, Factory make_plain);
  ~ZeroRedundancyCore();
  ZeroRedundancyCore(const ZeroRedundancyCore&) = delete;
  ZeroRedundancyCore& operator=(const ZeroRedundancyCore&) = delete;

  // The groups with this rank's parameters only.
  ParamGroups own_groups() const;
  // Puts all parameters into the groups of an optimizer that was made from own_groups().
  void show_all_parameters(Optimizer& optimizer) const;
  // Uses this optimizer from now on. `step` is that of the plain class.
  void set_optimizer(Optimizer& optimizer, Step step);

  at::Tensor step(const Optimizer::LossClosure& closure);
  void add_param_group(Optimizer& optimizer, const torch::optim::OptimizerParamGroup& group);

  std::unique_ptr<Optimizer> consolidated(Optimizer& optimizer, AnyRank to, const Save& save);
  void save(torch::serialize::OutputArchive& archive, const Save& save) const;
  void load(Optimizer& optimizer, torch::serialize::InputArchive& archive, const Load& load,
            const Save& save);

  int rank_of(const at::Tensor& parameter) const;
  bool updates(const at::Tensor& parameter) const;
  std::unique_ptr<JoinHook> join_hook(std::function<void()> step) const;
  c10::Device device() const;
  const Group& group() const;

  struct Impl;
  const std::shared_ptr<Impl>& impl() const { return impl_; }

 private:
  std::shared_ptr<Impl> impl_;  // A hook of hook_with_zero_step() has a weak pointer to it.
};

}  // namespace distrun::internal
