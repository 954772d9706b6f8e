#include <ATen/ATen.h>
#include <torch/utils.h>

#include "testsuites/gloo/ddp.h"

namespace distrun {
namespace {

void step(const at::Tensor& output, const at::Tensor& target) {
  at::mse_loss(output, target.to(output.device())).backward();
}

void update_parameters(const torch::nn::Module& module) {
  const at::NoGradGuard no_grad;
  for (at::Tensor& parameter : module.parameters()) {
    if (!parameter.requires_grad()) continue;
    parameter.sub_(parameter.grad());
    parameter.mutable_grad().reset();
  }
}

// A network that gets all samples, and one per rank that gets its own, must stay equal.
void train_as_alone(const std::vector<c10::Device>& devices, const DdpOptions& options) {
  const int64_t local_batch = static_cast<int64_t>(devices.size());
  const int64_t batch = local_batch * get_world_size();
  const auto alone = std::make_shared<LayersImpl>(), shared = std::make_shared<LayersImpl>();
  alone->spread(devices);
  shared->spread(devices);
  copy_parameters(*alone, *shared);
  DistributedDataParallel ddp(shared, options);
  EXPECT_EQ(ddp.get_ddp_logging_data().ints_map.at("is_multi_device_module"), devices.size() > 1);

  at::Tensor input = at::randn({batch, 2}).to(devices.front());
  const at::Tensor target = at::randn({batch, 4}).to(devices.front());
  for (int iteration = 0; iteration < 2; ++iteration) {
    SCOPED_TRACE(iteration);
    step(alone->forward(input), target);
    const int64_t first = get_rank() * local_batch;
    step(ddp(input.narrow(0, first, local_batch)), target.narrow(0, first, local_batch));
    update_parameters(*alone);
    update_parameters(ddp);
    EXPECT_TENSORS_CLOSE(ddp.parameters(), alone->parameters(), {.rtol = 1.3e-6, .atol = 5e-5});
    torch::manual_seed(static_cast<uint64_t>(1337 + iteration));
    input = input.index_select(0, at::randperm(batch, at::kLong).to(input.device()));
  }
}

DISTRIBUTED_TEST(gloo, DistributedDataParallelTest, test_gloo_backend_cpu_module,
                 {.ranks = 2, .backends = {"gloo", "shm"}}) {
  train_as_alone({cpu()}, {.bucket_cap_mb = 0.001});
}

DISTRIBUTED_TEST(gloo, DistributedDataParallelTest, test_gloo_backend_cpu_module_grad_is_view,
                 {.ranks = 2, .backends = {"gloo", "shm"}}) {
  train_as_alone({cpu()}, {.bucket_cap_mb = 0.001, .gradient_as_bucket_view = true});
}

DISTRIBUTED_TEST(gloo, DistributedDataParallelTest,
                 test_gloo_backend_1gpu_module_device_ids_integer_list,
                 {.ranks = 2, .min_gpus = 2}) {
  train_as_alone({gpu()}, {.device_ids = {gpu().index()}, .bucket_cap_mb = 0.001});
}

DISTRIBUTED_TEST(gloo, DistributedDataParallelTest,
                 test_gloo_backend_1gpu_module_device_ids_torch_device_list,
                 {.ranks = 2, .min_gpus = 2}) {
  train_as_alone({gpu()}, {.device_ids = {gpu()}, .bucket_cap_mb = 0.001});
}

DISTRIBUTED_TEST(gloo, DistributedDataParallelTest, test_gloo_backend_2gpu_module,
                 {.ranks = 2, .min_gpus = 4}) {
  train_as_alone(gpus(2), {.bucket_cap_mb = 0.001});
}

DISTRIBUTED_TEST(gloo, DistributedDataParallelTest, test_gloo_backend_4gpu_module,
                 {.ranks = 2, .min_gpus = 8}) {
  train_as_alone(gpus(4), {.bucket_cap_mb = 0.001});
}

}  // namespace
}  // namespace distrun
