// What a ZeroRedundancyOptimizer consists of, and its step.
#pragma once

#include <string>

#include "distrun/detail/zero_redundancy_core.h"
#include "distrun/group.h"
#include "parallel/optim/divided_groups.h"
#include "parallel/optim/parameter_sync.h"
#include "parallel/optim/step_report.h"

namespace distrun::internal {

struct ZeroRedundancyCore::Impl {
  Impl(const ParamGroups& initial, const Group& its_group, bool has_buckets, Factory factory);

  // Checks and assigns groups that were added to the optimizer. `error` is one of this rank.
  void take_new_groups(const Optimizer& optimizer, const std::string& error = "");

  at::Tensor step(Optimizer& optimizer, const Optimizer::LossClosure& closure, const Step& plain);

  Group group;
  int rank, ranks;
  bool as_bucket_view;
  Factory make_plain;
  ParameterSync sync;
  DividedGroups groups;
  ParamGroups as_constructed;  // Until the optimizer has them.

 private:
  at::Tensor step_here(Optimizer& optimizer, const Optimizer::LossClosure& closure,
                       const Step& plain) const;
  void send_and_report(const StepFailure& failure);
};

}  // namespace distrun::internal
