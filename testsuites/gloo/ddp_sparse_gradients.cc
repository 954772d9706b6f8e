#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/utils.h>

#include "distrun/collectives.h"
#include "testsuites/gloo/ddp.h"

namespace distrun {
namespace {

using SparseDdp = DistributedDataParallel<SparseGradientModuleImpl>;

// One network gets all samples, the other each rank's: gradients are equal and sparse.
void expect_sparse_gradients(SparseGradientModuleImpl& alone, SparseDdp& ddp) {
  constexpr int64_t kOwn = 2;
  const int64_t batch = kOwn * get_world_size();
  const at::Tensor input = at::randint(0, 10, {batch, 2}, at::kLong);
  const at::Tensor target = at::randint(0, 10, {batch}, at::kLong);
  at::cross_entropy_loss(alone.forward(input), target).backward();
  at::cross_entropy_loss(ddp(input.split(kOwn)[static_cast<std::size_t>(get_rank())]),
                         target.split(kOwn)[static_cast<std::size_t>(get_rank())])
      .backward();
  EXPECT_TRUE(ddp.parameters()[0].grad().is_sparse());
  EXPECT_TENSORS_CLOSE(ddp.parameters()[0].grad(), alone.parameters()[0].grad());
}

std::pair<std::shared_ptr<SparseGradientModuleImpl>, SparseDdp> networks(
    const DdpOptions& options) {
  torch::manual_seed(1337);
  auto alone = std::make_shared<SparseGradientModuleImpl>();
  auto shared = std::make_shared<SparseGradientModuleImpl>();
  copy_parameters(*alone, *shared);
  return {std::move(alone), SparseDdp(std::move(shared), options)};
}

void test_sparse_gradients(const DdpOptions& options) {
  auto [alone, ddp] = networks(options);
  expect_sparse_gradients(*alone, ddp);
}

DISTRIBUTED_TEST(gloo, DistributedDataParallelTest, test_sparse_gradients,
                 {.ranks = 2, .backends = {"gloo", "shm"}}) {
  test_sparse_gradients({});
}

DISTRIBUTED_TEST(gloo, DistributedDataParallelTest, test_sparse_gradients_grad_is_view,
                 {.ranks = 2, .backends = {"gloo", "shm"}}) {
  test_sparse_gradients({.gradient_as_bucket_view = true});
}

DISTRIBUTED_TEST(gloo, DistributedDataParallelTest, test_ddp_comm_hook_sparse_gradients,
                 {.ranks = 2, .backends = {"gloo", "shm"}}) {
  auto [alone, ddp] = networks({});
  int calls = 0;
  ddp.register_comm_hook([&calls](c10d::GradBucket& bucket) {
    ++calls;
    return all_reduce(bucket.getBuffer(), ReduceOp::SUM, {.async_op = true})
        .get_future()
        ->then(
            [](c10::ivalue::Future& sum) -> c10::IValue {
              return sum.value().toTensorVector()[0] / get_world_size();
            },
            c10::TensorType::get());
  });
  expect_sparse_gradients(*alone, ddp);
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace distrun
