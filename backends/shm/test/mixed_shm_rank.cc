// The C++ ranks of distrun_shm_test.py, whose Python ranks make the same calls (shm_ranks.py).
#include <cstdio>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include "distrun/collectives.h"
#include "distrun/point_to_point.h"
#include "distrun/process_group.h"

namespace distrun {
namespace {

void print(const char* name, const at::Tensor& tensor) {
  std::printf("rank %d: %s", get_rank(), name);
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    std::printf(" %g", tensor.view(-1)[i].item<double>());
  }
  std::printf("\n");
}

// Depends on the rank.
at::Tensor value() { return at::full({2}, get_rank() + 1.0, at::kDouble); }

void run() {
  const int next = (get_rank() + 1) % get_world_size();
  at::Tensor sum = value();
  all_reduce(sum);
  print("sum", sum);

  std::vector<at::Tensor> all(static_cast<std::size_t>(get_world_size()));
  for (at::Tensor& each : all) each = at::zeros({2}, at::kDouble);
  all_gather(all, value());
  print("last", all.back());

  at::Tensor received = at::zeros({2}, at::kDouble);
  const auto sent = isend(value(), next);
  const int from = recv(received);
  sent.wait();
  print("received", received + from);

  const Group pair = new_group({{0, 1}});
  if (pair.is_member()) {
    at::Tensor product = value();
    all_reduce(product, c10d::ReduceOp::PRODUCT, {.group = pair});
    print("product", product);
  }
  barrier();
}

}  // namespace
}  // namespace distrun

int main() {
  distrun::init_process_group("shm");
  distrun::run();
  distrun::destroy_process_group();
  return 0;
}
