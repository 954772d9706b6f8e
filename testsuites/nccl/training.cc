#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <torch/nn/modules/linear.h>

#include "distrun/distributed_data_parallel.h"
#include "testsuites/nccl/nccl_test.h"

namespace distrun {
namespace {

struct TrainingTest : NcclTest {};

// The gradient of the sum of a linear layer's outputs is the sum of its inputs.
NCCL_TEST(TrainingTest, test_ddp_averages_gradients) {
  const at::Tensor input = make(at::arange(12, at::kFloat).view({4, 3}) * (rank() + 1));
  torch::nn::Linear linear(3, 2);
  linear->to(gpu());
  DistributedDataParallel ddp(linear.ptr(), {.device_ids = {gpu()}});
  ddp(input).sum().backward();
  const double factor = (size() + 1) / 2.0;  // The average of 1, 2, …, size().
  const at::Tensor column_sums = at::arange(12, at::kFloat).view({4, 3}).sum(0) * factor;
  EXPECT_TENSORS_EQUAL(linear->weight.grad(), make(column_sums.expand({2, 3})));
  EXPECT_TENSORS_EQUAL(linear->bias.grad(), make(at::full({2}, 4.0F)));
}

NCCL_TEST(TrainingTest, test_ddp_starts_with_the_parameters_of_rank_0) {
  torch::nn::Linear linear(3, 2);
  {
    const at::NoGradGuard no_grad;
    linear->weight.fill_(rank() + 5);
  }
  linear->to(gpu());
  const DistributedDataParallel ddp(linear.ptr(), {.device_ids = {gpu()}});
  EXPECT_TENSORS_EQUAL(linear->weight.detach(), make(at::full({2, 3}, 5.0F)));
}

}  // namespace
}  // namespace distrun
