#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include "distrun/distributed_data_parallel.h"
#include "distrun/fully_sharded_data_parallel.h"
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

// The parameters after a step equal those of one process with the inputs of all ranks.
NCCL_TEST(TrainingTest, test_fsdp_trains_as_one_process) {
  torch::nn::Linear plain(3, 2);
  for (const at::Tensor& one : plain->parameters()) one.detach().fill_(0.5);
  torch::nn::Linear linear(3, 2);
  for (const at::Tensor& one : linear->parameters()) one.detach().fill_(0.5);
  linear->to(gpu());
  FullyShardedDataParallel fsdp(linear);
  torch::optim::SGD optimizer(fsdp.parameters(), 0.1), plain_optimizer(plain->parameters(), 0.1);
  const auto input_of = [](int its) { return at::arange(12, at::kFloat).view({4, 3}) * (its + 1); };
  at::Tensor loss = at::zeros({});
  for (int its = 0; its < size(); ++its) loss = loss + plain(input_of(its)).pow(2).mean();
  (loss / size()).backward();
  plain_optimizer.step();
  fsdp(input_of(rank())).pow(2).mean().backward();
  optimizer.step();
  const FsdpState state = fsdp.full_state_dict();
  EXPECT_TENSORS_CLOSE(state["weight"].cpu(), plain->weight.detach());
  EXPECT_TENSORS_CLOSE(state["bias"].cpu(), plain->bias.detach());
}

}  // namespace
}  // namespace distrun
