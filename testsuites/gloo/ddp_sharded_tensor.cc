#include <ATen/ATen.h>

#include "distrun/sharded_tensor.h"
#include "testsuites/gloo/ddp.h"

namespace distrun {
namespace {

// A layer, and a parameter sharded over the ranks.
struct ShardedModuleImpl : torch::nn::Module {
  torch::nn::Linear fc1{register_module("fc1", linear(2, 10))};
  at::Tensor st;
  explicit ShardedModuleImpl(const ShardedTensor& tensor)
      : st(register_parameter("st", tensor.local_tensor())) {}
  at::Tensor forward(const at::Tensor& x) { return at::softmax(at::relu(fc1(x)), /*dim=*/1); }
};

// Five of ten rows on each rank.
ShardedTensor sharded(c10::Device device) {
  const int rank = get_rank();
  const at::Tensor part = at::full({5, 10}, 1.0 + rank, at::TensorOptions(device));
  const std::string place = device.is_cuda() ? device.str() : "cpu";
  return init_from_local_shards(
      {{.tensor = part,
        .metadata = {.shard_offsets = {rank * 5, 0},
                     .shard_sizes = {5, 10},
                     .placement = "rank:" + std::to_string(rank) + "/" + place}}},
      {10, 10});
}

void leave_the_shard_alone(c10::Device device) {
  const ShardedTensor st = sharded(device);
  EXPECT_EQ(st.metadata().shards_metadata.size(), 2u);
  const auto module = std::make_shared<ShardedModuleImpl>(st);
  module->fc1->to(device);
  DistributedDataParallel ddp(module, {.broadcast_buffers = false,
                                       .gradient_as_bucket_view = true,
                                       .static_graph = true,
                                       .parameters_to_ignore = {"st"}});
  ddp(at::ones({2, 2}, at::TensorOptions(device))).sum().backward();
  EXPECT_TENSORS_EQUAL(module->st, at::full_like(module->st, 1.0 + get_rank()));
  EXPECT_FALSE(module->st.grad().defined());
  EXPECT_TRUE(module->fc1->weight.grad().defined());
}

DISTRIBUTED_TEST(gloo, DistributedDataParallelTest, test_ignored_sharded_tensor,
                 {.ranks = 2, .backends = {"gloo", "shm"}}) {
  leave_the_shard_alone(cpu());
}

DISTRIBUTED_TEST(gloo, DistributedDataParallelTest, test_ignored_sharded_tensor_cuda,
                 {.ranks = 2, .min_gpus = 2}) {
  leave_the_shard_alone(gpu());
}

}  // namespace
}  // namespace distrun
