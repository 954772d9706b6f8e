#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/comm.hpp>

#include "testsuites/gloo/ddp.h"

namespace distrun {
namespace {

// Ones, plus one in a callback: twos.
Future simple_hook(c10d::GradBucket& bucket) {
  return completed_future(at::ones_like(bucket.getBuffer()))
      ->then(
          [](c10::ivalue::Future& ones) -> c10::IValue {
            const at::Tensor value = ones.value().toTensor();
            return value + at::ones_like(value);
          },
          c10::TensorType::get());
}

void backward(DistributedDataParallel<ModuleForDdpCommHookImpl>& ddp, const at::Tensor& input) {
  ddp(input, get_rank()).mean().backward();
}

void expect_what_the_hook_returns(DistributedDataParallel<ModuleForDdpCommHookImpl> ddp,
                                  const at::Tensor& input) {
  ddp.register_comm_hook(simple_hook);
  backward(ddp, input);
  // Without the hook it would be 1/4.
  EXPECT_TENSORS_EQUAL(ddp.parameters()[0].grad(), at::full_like(ddp.parameters()[0], 2.0));
}

std::shared_ptr<ModuleForDdpCommHookImpl> module() {
  return std::make_shared<ModuleForDdpCommHookImpl>();
}

DISTRIBUTED_TEST(gloo, DistributedDataParallelTest, test_ddp_comm_hook_future_passing_cpu,
                 {.ranks = 2, .backends = {"gloo", "shm"}}) {
  expect_what_the_hook_returns(ddp_on(cpu(), module()), eight(cpu()));
}

DISTRIBUTED_TEST(gloo, DistributedDataParallelTest, test_ddp_comm_hook_future_passing_gpu_gloo,
                 {.ranks = 2, .min_gpus = 2}) {
  expect_what_the_hook_returns(ddp_on(gpu(), module()), eight(gpu()));
}

template <class Hook>
concept CanBeRegistered = requires(DistributedDataParallel<ModuleForDdpCommHookImpl>& ddp,
                                   Hook hook) {
  ddp.register_comm_hook(hook);
};

// Wrong hooks, a TypeError or ValueError in Python, do not compile.
DISTRIBUTED_TEST(gloo, DistributedDataParallelTest, test_ddp_invalid_comm_hook_init,
                 {.ranks = 2, .backends = {"gloo", "shm"}}) {
  EXPECT_TRUE(CanBeRegistered<Future (*)(c10d::GradBucket&)>);
  EXPECT_FALSE(CanBeRegistered<int>);
  EXPECT_FALSE(CanBeRegistered<Future (*)(int)>);
  DistributedDataParallel ddp(module());
  EXPECT_THROWS_WITH(ddp.register_comm_hook(CommHook(), "empty"), c10::ValueError,
                     "communication hook empty: the hook is empty; expected a function");
  expect_error_logged(ddp.get_ddp_logging_data(), "the hook is empty; expected a function");
}

DISTRIBUTED_TEST(gloo, DistributedDataParallelTest, test_ddp_invalid_comm_hook_return_type,
                 {.ranks = 2, .backends = {"gloo", "shm"}}) {
  EXPECT_FALSE(CanBeRegistered<int (*)(c10d::GradBucket&)>);
  EXPECT_FALSE(CanBeRegistered<void (*)(c10d::GradBucket&)>);
  DistributedDataParallel null(module());
  null.register_comm_hook([](c10d::GradBucket&) { return Future(); }, "null");
  EXPECT_THROWS_WITH(backward(null, eight(cpu())), c10::ValueError,
                     "communication hook null: it has returned a null Future");
  DistributedDataParallel number(module());
  number.register_comm_hook(
      [](c10d::GradBucket&) {
        auto one = c10::make_intrusive<c10::ivalue::Future>(c10::IntType::get());
        one->markCompleted(1);
        return one;
      },
      "number");
  EXPECT_THROWS_WITH(backward(number, eight(cpu())), c10::ValueError,
                     "communication hook number: its future holds Int; expected a tensor");
}

DISTRIBUTED_TEST(gloo, DistributedDataParallelTest, test_ddp_comm_hook_register_just_once,
                 {.ranks = 2, .backends = {"gloo", "shm"}}) {
  DistributedDataParallel ddp(module());
  ddp.register_comm_hook(simple_hook);
  const char* const text = "comm_hook or register_.*comm_hook can only be called once";
  EXPECT_THROWS_WITH(ddp.register_comm_hook(simple_hook), c10::Error, text);
  EXPECT_THROWS_WITH(ddp.register_builtin_comm_hook(BuiltinCommHook::ALLREDUCE), c10::Error, text);
}

}  // namespace
}  // namespace distrun
