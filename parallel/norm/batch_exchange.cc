#include "parallel/norm/batch_exchange.h"

#include <algorithm>
#include <vector>

#include <ATen/core/TensorAccessor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "distrun/collectives.h"
#include "distrun/process_group.h"

namespace distrun::internal {

namespace {

constexpr const char* kLayer = "SyncBatchNorm";

// The first elements of a message; the means and variances follow. Doubles count exactly.
enum Field : std::int64_t { kHasProblem, kGraph, kCount, kFields };

// One row for each rank.
at::Tensor gathered(const at::Tensor& own, const Group& group) {
  at::Tensor all = at::empty({group->getSize(), own.numel()}, own.options());
  all_gather_into_tensor(all, own, {.group = group});
  return all;
}

// A further collective, but only after an error.
[[noreturn]] void throw_first_problem(const std::string& own, const Group& group) {
  const std::vector<std::string> all = all_gather_bytes(own, group);
  const auto first =
      std::find_if(all.begin(), all.end(), [](const auto& one) { return !one.empty(); });
  const auto rank = static_cast<int>(first - all.begin());
  TORCH_CHECK_VALUE(false, kLayer, ": rank ", get_global_rank(group, rank), ": ",
                    first == all.end() ? std::string() : *first);
}

}  // namespace

void compare_channels(std::int64_t channels, c10::Device device, const Group& group) {
  const at::Tensor all =
      gathered(at::full({1}, channels, at::TensorOptions(at::kLong).device(device)), group).cpu();
  const auto of_ranks = all.accessor<std::int64_t, 2>();
  for (std::int64_t rank = 1; rank < all.size(0); ++rank) {
    TORCH_CHECK_VALUE(of_ranks[rank][0] == of_ranks[0][0], kLayer, ": rank ",
                      get_global_rank(group, static_cast<int>(rank)), " has ", of_ranks[rank][0],
                      " channels, and rank ", get_global_rank(group, 0), " has ", of_ranks[0][0],
                      "; all ranks must construct the same layer");
  }
}

AllBatches exchange_batches(const OwnBatch& own, const Group& group) {
  const at::Tensor& mean = own.statistics.mean;
  const auto options = mean.options().dtype(at::kDouble);
  const at::Tensor head =
      at::tensor({own.problem.empty() ? 0.0 : 1.0, static_cast<double>(own.graph),
                  static_cast<double>(own.statistics.count)},
                 options);
  const at::Tensor all = gathered(
      at::cat({head, mean.to(at::kDouble), own.statistics.variance.to(at::kDouble)}), group);
  // On a GPU, the only wait of forward() for the device.
  const at::Tensor heads = all.narrow(1, 0, kFields).cpu();
  const auto of_ranks = heads.accessor<double, 2>();

  std::int64_t count = 0, without_graph = -1, with_input = -1;
  for (std::int64_t rank = 0; rank < heads.size(0); ++rank) {
    if (of_ranks[rank][kHasProblem] != 0) throw_first_problem(own.problem, group);
    const auto graph = static_cast<GraphKind>(of_ranks[rank][kGraph]);
    if (graph == GraphKind::kNone) without_graph = rank;
    if (graph == GraphKind::kWithInput) with_input = rank;
    count += static_cast<std::int64_t>(of_ranks[rank][kCount]);
  }
  TORCH_CHECK_VALUE(count != 1, kLayer,
                    ": expected more than 1 value per channel when training; the batches of all "
                    "ranks together have 1");
  TORCH_CHECK_VALUE(with_input < 0 || without_graph < 0, kLayer, ": the input of rank ",
                    get_global_rank(group, static_cast<int>(with_input)),
                    " requires a gradient, and rank ",
                    get_global_rank(group, static_cast<int>(without_graph)),
                    " computes none, so backward() would wait for it; use the same NoGradGuard and "
                    "requires_grad on all ranks");
  const std::int64_t channels = mean.numel();
  return {merged_statistics(all.select(1, kCount), all.narrow(1, kFields, channels),
                            all.narrow(1, kFields + channels, channels), count),
          with_input >= 0};
}

GradientSums exchange_gradients(const GradientSums& own, const Group& group) {
  const at::Tensor sums = at::cat({own.of_gradient, own.of_covariance}).to(at::kDouble);
  all_reduce(sums, ReduceOp::SUM, {.group = group});
  const std::int64_t channels = own.of_gradient.numel();
  return {sums.narrow(0, 0, channels), sums.narrow(0, channels, channels)};
}

}  // namespace distrun::internal
