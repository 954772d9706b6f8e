#include <ATen/ATen.h>

#include "testsuites/gloo/ddp.h"

namespace distrun {
namespace {

struct UnusedParametersTest : DistributedDataParallelTest {
  // A parameter used on one rank gets a gradient on all; one used on none does not change.
  static void expect_gradients_of_used(c10::Device device, DdpOptions options) {
    options.find_unused_parameters = true;
    auto ddp = ddp_on(device, std::make_shared<GlobalLocalUnusedParamModuleImpl>(), options);
    const auto& module = *ddp.module();
    const at::Tensor output = ddp(eight(device), get_rank());
    EXPECT_FALSE(module.t0->p.grad().defined());
    EXPECT_FALSE(module.t1->p.grad().defined());
    EXPECT_FALSE(module.task_unused->p.grad().defined());
    output.mean().backward();
    // The mean of 1/4 on the rank that uses it and 0 on the other.
    const at::Tensor expected = at::full_like(module.t0->p, 0.125);
    EXPECT_TENSORS_EQUAL(module.t0->p.grad(), expected);
    EXPECT_TENSORS_EQUAL(module.t1->p.grad(), expected);
    EXPECT_FALSE(module.task_unused->p.grad().defined());
  }

  // Rank 0 uses all parameters, and reduces those that others do not use.
  static void expect_gradients_of_all(c10::Device device) {
    auto ddp = ddp_on(device, std::make_shared<FindUnusedParamModuleImpl>(),
                      {.find_unused_parameters = true});
    const auto& module = *ddp.module();
    const at::Tensor output = ddp(eight(device), get_rank());
    EXPECT_FALSE(module.t0->p.grad().defined());
    EXPECT_FALSE(module.t1->p.grad().defined());
    output.mean().backward();
    EXPECT_TENSORS_EQUAL(module.t0->p.grad(), at::full_like(module.t0->p, 0.125));
    EXPECT_TENSORS_EQUAL(module.t1->p.grad(), at::full_like(module.t1->p, 0.25));
  }
};

}  // namespace

DISTRIBUTED_TEST(gloo, DistributedDataParallelTest, test_global_local_unused_params_grad,
                 {.ranks = 2, .backends = {"gloo", "shm"}}) {
  UnusedParametersTest::expect_gradients_of_used(cpu(), {});
}

DISTRIBUTED_TEST(gloo, DistributedDataParallelTest, test_global_local_unused_params_grad_cuda,
                 {.ranks = 2, .min_gpus = 2}) {
  UnusedParametersTest::expect_gradients_of_used(gpu(), {});
}

DISTRIBUTED_TEST(gloo, DistributedDataParallelTest,
                 test_global_local_unused_params_grad_with_grad_is_view, {.ranks = 2}) {
  UnusedParametersTest::expect_gradients_of_used(cpu(), {.gradient_as_bucket_view = true});
}

DISTRIBUTED_TEST(gloo, DistributedDataParallelTest,
                 test_global_local_unused_params_grad_with_grad_is_view_cuda,
                 {.ranks = 2, .min_gpus = 2}) {
  UnusedParametersTest::expect_gradients_of_used(gpu(), {.gradient_as_bucket_view = true});
}

DISTRIBUTED_TEST(gloo, DistributedDataParallelTest,
                 test_global_local_unused_params_grad_with_static_graph, {.ranks = 2}) {
  UnusedParametersTest::expect_gradients_of_used(cpu(), {.static_graph = true});
}

DISTRIBUTED_TEST(gloo, DistributedDataParallelTest,
                 test_global_local_unused_params_grad_with_static_graph_cuda,
                 {.ranks = 2, .min_gpus = 2}) {
  UnusedParametersTest::expect_gradients_of_used(gpu(), {.static_graph = true});
}

DISTRIBUTED_TEST(gloo, DistributedDataParallelTest,
                 test_find_unused_parameters_when_unused_parameters_empty, {.ranks = 2}) {
  UnusedParametersTest::expect_gradients_of_all(cpu());
}

DISTRIBUTED_TEST(gloo, DistributedDataParallelTest,
                 test_find_unused_parameters_when_unused_parameters_empty_cuda,
                 {.ranks = 2, .min_gpus = 2}) {
  UnusedParametersTest::expect_gradients_of_all(gpu());
}

}  // namespace distrun
