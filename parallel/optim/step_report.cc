#include "parallel/optim/step_report.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include <ATen/ops/tensor.h>
#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "distrun/collectives.h"
#include "distrun/process_group.h"

namespace distrun::internal {

bool has_cpu_backend(const Group& group) {
  const std::vector<c10::Device> devices = group->getDeviceTypes();
  return std::any_of(devices.begin(), devices.end(),
                     [](const c10::Device& one) { return one.is_cpu(); });
}

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

// The largest and the smallest hash differ if ranks would send different parameters.
bool has_any_rank_failed(const StepFailure& own, std::size_t hash, const Group& group) {
  const auto half = static_cast<std::int64_t>(hash >> 1);
  const std::vector<std::int64_t> values = {own.thrown ? 1 : 0, half, -half};
  const at::Tensor report = at::tensor(values, at::kLong);
  all_reduce(report, ReduceOp::MAX, {.group = group});
  const bool agree = report[1].item<std::int64_t>() == -report[2].item<std::int64_t>();
  TORCH_CHECK_VALUE(agree, "ZeroRedundancyOptimizer::step on rank ", get_rank(),
                    ": ranks would send different parameters; freeze parameters, and change their "
                    "dtype, on every rank");
  return report[0].item<std::int64_t>() != 0;
}

void throw_failure_of_step(const StepFailure& own, const Group& group) {
  const std::vector<std::string> texts =
      all_gather_bytes(own.thrown ? "failed: " + own.text : "", group);
  if (own.thrown) std::rethrow_exception(own.thrown);
  const auto failed =
      std::find_if(texts.begin(), texts.end(), [](const std::string& one) { return !one.empty(); });
  TORCH_CHECK_WITH(DistError, false, "ZeroRedundancyOptimizer: step() of rank ",
                   get_global_rank(group, static_cast<int>(failed - texts.begin())), " ", *failed);
}

}  // namespace distrun::internal
