// FSDP and tensor parallelism in the fake process group.
#include <functional>
#include <memory>
#include <vector>

#include <ATen/ops/arange.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/relu.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>
#include <torch/utils.h>

#include "distrun/device_mesh.h"
#include "distrun/fully_sharded_data_parallel.h"
#include "distrun/tensor_parallel.h"
#include "testsuites/fake/test_fake_pg.h"

namespace distrun {
namespace {

torch::nn::Linear linear_on(c10::Device device, int inputs, int outputs) {
  torch::nn::Linear linear(inputs, outputs);
  linear->to(device);
  return linear;
}

std::vector<at::Tensor> copies_of(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> copies;
  for (const at::Tensor& one : parameters) copies.push_back(one.detach().clone());
  return copies;
}

// Each parameter is a shard with a gradient. Some values have changed since `before`.
void expect_a_step(const torch::nn::Module& module, const std::vector<at::Tensor>& before) {
  const auto parameters = module.parameters();
  bool has_changed = false;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_EQ(parameters[i].dim(), 1);
    EXPECT_EQ(parameters[i].grad().sizes(), parameters[i].sizes());
    has_changed = has_changed || !parameters[i].equal(before[i]);
  }
  EXPECT_TRUE(has_changed);
}

void construct_fsdp(c10::Device device) {
  const FullyShardedDataParallel<torch::nn::Linear> fsdp(linear_on(device, 2, 3));
  // 6 and 3 elements, each padded to 16: rank 0 of 2 has the weight, rank 1 the bias.
  EXPECT_EQ(fsdp.module()->weight.numel(), 6);
  EXPECT_EQ(fsdp.module()->bias.numel(), 0);
  EXPECT_EQ(fsdp.module()->weight.device().type(), device.type());
}

DISTRIBUTED_TEST(fake, TestFakePG, test_construct_fsdp, {.backends = {"fake"}}) {
  be_rank(0);
  construct_fsdp(cpu());
}

DISTRIBUTED_TEST(fake, TestFakePG, test_construct_fsdp_cuda,
                 {.min_gpus = 1, .backends = {"fake"}}) {
  be_rank(0);
  construct_fsdp(gpu());
}

// The input is on the CPU: FSDP moves it to the module's device.
void train_with_fsdp(c10::Device device) {
  const torch::nn::Sequential module(linear_on(device, 2, 3), torch::nn::ReLU(),
                                     linear_on(device, 3, 2));
  FullyShardedDataParallel fsdp(module);
  torch::optim::Adam optimizer(fsdp.parameters(), torch::optim::AdamOptions(0.0001));
  const auto before = copies_of(fsdp.parameters());
  const at::Tensor output = fsdp(at::randn({2, 2}));
  EXPECT_EQ(output.sizes(), (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(output.device().type(), device.type());
  output.sum().backward();
  optimizer.step();
  expect_a_step(fsdp, before);
}

DISTRIBUTED_TEST(fake, TestFakePG, test_fsdp_fake_e2e, {.backends = {"fake"}}) {
  be_rank(0);
  train_with_fsdp(cpu());
}

DISTRIBUTED_TEST(fake, TestFakePG, test_fsdp_fake_e2e_cuda, {.min_gpus = 1, .backends = {"fake"}}) {
  be_rank(0);
  train_with_fsdp(gpu());
}

// PyTorch's MLPModule.
struct MlpImpl : torch::nn::Module {
  ColwiseParallel net1{nullptr};
  RowwiseParallel net2{nullptr};
  MlpImpl(c10::Device device, const DeviceMesh& tp, const ParallelLayouts& first,
          const ParallelLayouts& second) {
    torch::manual_seed(5);
    net1 = register_module("net1", ColwiseParallel(linear_on(device, 10, 16), tp, first));
    net2 = register_module("net2", RowwiseParallel(linear_on(device, 16, 10), tp, second));
  }
  at::Tensor forward(const at::Tensor& x) { return net2(at::relu(net1(x))); }
};

void train_with_fsdp_and_tensor_parallelism(c10::Device device) {
  using tensor::Replicate;
  const DeviceMesh unnamed(device.type(), at::arange(4).view({-1, 2}));
  const DeviceMesh mesh = init_device_mesh(device.type(), {2, 2}, {"dp", "tp"});
  EXPECT_TRUE(unnamed.mesh().equal(mesh.mesh()));

  const auto train = [&](const ParallelLayouts& first, const ParallelLayouts& second) {
    FullyShardedDataParallel fsdp(std::make_shared<MlpImpl>(device, mesh["tp"], first, second),
                                  {.process_group = mesh["dp"].get_group()});
    EXPECT_EQ(fsdp.shards().size(), 4);
    EXPECT_EQ(fsdp.shards()[0].sizes, (std::vector<std::int64_t>{8, 10}));
    torch::optim::Adam optimizer(fsdp.parameters(), torch::optim::AdamOptions(0.0001));
    for (int i = 0; i < 10; ++i) {
      optimizer.zero_grad();
      const auto before = copies_of(fsdp.parameters());
      torch::manual_seed(static_cast<std::uint64_t>(i + get_rank()));
      const at::Tensor output = fsdp(at::randn({20, 10}));
      // Of 20 rows, or with sequences, of the 40 rows of both ranks, each rank gets 20.
      EXPECT_EQ(output.sizes(), (std::vector<std::int64_t>{20, 10}));
      output.sum().backward();
      optimizer.step();
      expect_a_step(fsdp, before);
    }
  };
  train({tensor::Shard(0), tensor::Shard(-1)}, {tensor::Shard(-1), tensor::Shard(0)});
  train({Replicate(), tensor::Shard(-1)}, {tensor::Shard(-1), Replicate()});
}

DISTRIBUTED_TEST(fake, TestFakePG, test_fsdp_tp_fake_e2e, {.backends = {"fake"}}) {
  be_rank(0, 4);
  train_with_fsdp_and_tensor_parallelism(cpu());
}

DISTRIBUTED_TEST(fake, TestFakePG, test_fsdp_tp_fake_e2e_cuda,
                 {.min_gpus = 1, .backends = {"fake"}}) {
  be_rank(0, 4);
  train_with_fsdp_and_tensor_parallelism(gpu());
}

}  // namespace
}  // namespace distrun
