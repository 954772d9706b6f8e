// The rows of our collectives, with a backend. See rows.h.
//
//     distrun launch --nproc-per-node 2 collectives_ranks shm OPERATIONS SIZES MILLISECONDS BATCHES
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "bench/collectives/rows.h"
#include "distrun/collectives.h"
#include "distrun/process_group.h"

namespace distrun::bench {
namespace {

double rank_0s(double value) {
  at::Tensor shared = at::tensor({value}, at::kDouble);
  broadcast(shared, 0);
  return shared.item<double>();
}

std::function<void()> call_of(const std::string& operation, std::size_t bytes) {
  const int ranks = get_world_size();
  const auto count = static_cast<std::int64_t>(floats_of(bytes, ranks));
  const at::Tensor all = at::zeros({count}), other = at::zeros({count});
  const at::Tensor part = at::zeros({count / ranks});
  if (operation == "all_reduce") return [=] { all_reduce(all); };
  if (operation == "broadcast") return [=] { broadcast(all, 0); };
  if (operation == "all_gather") return [=] { all_gather_into_tensor(all, part); };
  if (operation == "reduce_scatter") return [=] { reduce_scatter_tensor(part, all); };
  if (operation == "all_to_all") return [=] { all_to_all_single(other, all); };
  if (operation == "barrier") return [] { barrier(); };
  throw std::invalid_argument("no operation " + operation);
}

int run(char** argv) {
  at::set_num_threads(1);
  const Plan plan = Plan::of(argv + 2);
  init_process_group(argv[1]);
  Measure measure(plan, get_rank(), rank_0s);
  for (const std::string& operation : plan.operations) {
    for (const std::size_t bytes : plan.sizes) {
      measure.row(operation, bytes, call_of(operation, bytes));
      if (operation == "barrier") break;
    }
  }
  destroy_process_group();
  return 0;
}

}  // namespace
}  // namespace distrun::bench

int main(int /*argc*/, char** argv) { return distrun::bench::run(argv); }
