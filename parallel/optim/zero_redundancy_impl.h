// What a ZeroRedundancyOptimizer consists of, and its step.
#pragma once

#include <memory>
#include <string>

#include "distrun/detail/zero_redundancy_core.h"
#include "distrun/group.h"
#include "parallel/optim/divided_groups.h"
#include "parallel/optim/parameter_sync.h"
#include "parallel/optim/step_report.h"

namespace distrun::internal {

struct ZeroRedundancyCore::Impl {
  Impl(const ParamGroups& initial, const Options& options, Factory factory);

  // Checks and assigns groups that were added to the optimizer. `error` is one of this rank.
  void take_new_groups(const std::string& error = "");

  // Throws c10::ValueError if the groups of the optimizer were changed in another way.
  void check_groups() const;
  // Whether hook_with_zero_step() made a hook that lives.
  bool has_zero_hook() const { return !zero_hooks.expired(); }
  // Updates all parameters, with their gradients, and sends them.
  at::Tensor step(const Optimizer::LossClosure& closure);

  Group group;
  int rank, ranks;
  bool as_bucket_view, overlaps_with_ddp;
  Factory make_plain;
  ParameterSync sync;
  DividedGroups groups;
  ParamGroups as_constructed;  // Until the optimizer has them.
  Optimizer* optimizer = nullptr;
  Step plain_step;                       // Of the plain class, for `optimizer`.
  std::weak_ptr<const void> zero_hooks;  // Of an object that hooks of hook_with_zero_step() own.

 private:
  at::Tensor step_here(const Optimizer::LossClosure& closure) const;
  void send_and_report(const StepFailure& failure);
};

}  // namespace distrun::internal
