#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/jit/testing/file_check.h>

#include "distrun/collectives.h"
#include "distrun/point_to_point.h"
#include "distrun/trace.h"
#include "testsuites/fake/test_fake_pg.h"

namespace distrun {
namespace {

using torch::jit::testing::FileCheck;

at::Tensor ones() { return at::ones({3, 3}); }
// One tensor per rank: zeros, ones.
Tensors of_both() { return {0 * ones(), ones()}; }

DISTRIBUTED_TEST(fake, TestFakePG, test_all_reduce, {.backends = {"fake"}}) {
  be_rank(1);
  const at::Tensor output = ones() * get_rank();
  all_reduce(output);
  EXPECT_TENSORS_EQUAL(output, ones());
}

DISTRIBUTED_TEST(fake, TestFakePG, test_allgather, {.backends = {"fake"}}) {
  be_rank(1);
  const at::Tensor input = ones() * get_rank();
  const Tensors outputs = {at::full({3, 3}, 7.0), at::full({3, 3}, 7.0)};
  all_gather(outputs, input);
  EXPECT_TENSORS_EQUAL(outputs, Tensors({ones(), ones()}));
}

DISTRIBUTED_TEST(fake, TestFakePG, test_reduce_scatter, {.backends = {"fake"}}) {
  be_rank(1);
  const at::Tensor output = at::full({3, 3}, 7.0);
  reduce_scatter(output, of_both());
  EXPECT_TENSORS_EQUAL(output, ones());
}

DISTRIBUTED_TEST(fake, TestFakePG, test_broadcast, {.backends = {"fake"}}) {
  be_rank(0);
  for (const int src : {0, 1}) {
    const at::Tensor output = ones();
    broadcast(output, src);
    EXPECT_TENSORS_EQUAL(output, ones());
  }
}

DISTRIBUTED_TEST(fake, TestFakePG, test_scatter, {.backends = {"fake"}}) {
  be_rank(0);
  const at::Tensor output = ones();
  scatter(output, of_both());
  EXPECT_TENSORS_EQUAL(output, 0 * ones());
  const at::Tensor from_another = ones();
  scatter(from_another, {}, /*src=*/1);
  EXPECT_TENSORS_EQUAL(from_another, ones());
}

DISTRIBUTED_TEST(fake, TestFakePG, test_alltoall, {.backends = {"fake"}}) {
  be_rank(0);
  const Tensors outputs = {at::full({3, 3}, 7.0), at::full({3, 3}, 7.0)};
  all_to_all(outputs, of_both());
  EXPECT_TENSORS_EQUAL(outputs, of_both());
}

// Split sizes that do not add up to the three rows.
DISTRIBUTED_TEST(fake, TestFakePG, test_alltoall_base, {.backends = {"fake"}}) {
  be_rank(0);
  const at::Tensor output = ones(), input = ones();
  EXPECT_THROWS_WITH(all_to_all_single(output, input, {1, 1}, {1, 1}), c10::ValueError,
                     "the split sizes of output add up to 2; expected 3");
  at::Tensor to = output, from = input;
  std::vector<int64_t> to_sizes = {1, 1}, from_sizes = {1, 1};
  EXPECT_THROWS_WITH(
      default_group().getBackend(at::kCPU)->alltoall_base(to, from, to_sizes, from_sizes),
      c10::Error, "the split sizes of the output add up to 2; expected 3");

  const at::Tensor rows = at::arange(9).view({3, 3}), mixed = at::empty_like(rows);
  all_to_all_single(mixed, rows, {1, 2}, {1, 2});
  EXPECT_TENSORS_EQUAL(mixed, rows);
}

DISTRIBUTED_TEST(fake, TestFakePG, test_send, {.backends = {"fake"}}) {
  be_rank(0);
  const at::Tensor tensor = ones();
  send(tensor, /*dst=*/1);
  EXPECT_TENSORS_EQUAL(tensor, ones());
}

DISTRIBUTED_TEST(fake, TestFakePG, test_recv, {.backends = {"fake"}}) {
  be_rank(0);
  const at::Tensor output = ones();
  EXPECT_EQ(recv(output, /*src=*/1), 1);
  EXPECT_TENSORS_EQUAL(output, ones());
}

// The operator behind Python's all_gather_tensor. Called through the dispatcher, because the type
// of its group name differs between LibTorch versions.
at::Tensor all_gather_tensor(const at::Tensor& tensor) {
  const auto call = [](const char* name, std::vector<c10::IValue> stack) {
    c10::Dispatcher::singleton().findSchemaOrThrow(name, "").callBoxed(stack);
    return stack.at(0).toTensor();
  };
  const at::Tensor gathered = call("_c10d_functional::all_gather_into_tensor",
                                   {tensor, get_world_size(), default_group().getGroupName()});
  return call("_c10d_functional::wait_tensor", {gathered});
}

void trace_all_gather(c10::Device device) {
  init_process_group({.backend = "fake",
                      .rank = 0,
                      .world_size = 2,
                      .store = c10::make_intrusive<c10d::HashStore>()});
  const auto ours = [](const Tensors& inputs) -> Tensors {
    const at::Tensor output = at::cat({inputs[0], inputs[0] + 1});
    all_gather_into_tensor(output, inputs[0]);
    return {output};
  };
  const auto pythons = [](const Tensors& inputs) -> Tensors {
    return {all_gather_tensor(inputs[0])};
  };
  const at::Tensor x = at::randn({2, 2}, device), y = at::randn({2, 2}, device);
  const Trace traced = trace(pythons, {x}), of_ours = trace(ours, {x});
  FileCheck().check("all_gather")->check("wait_tensor")->run(traced.str());
  FileCheck()
      .check("%all_gather_into_tensor : [num_users=1]")
      ->check_same("target=torch.ops._c10d_functional.all_gather_into_tensor.default")
      ->check_same("(%arg0_1, 2, ")
      ->check("%wait_tensor : [num_users=1]")
      ->check_same("(%all_gather_into_tensor,)")
      ->check("return (wait_tensor,)")
      ->run(traced.str());
  FileCheck().check("torch.ops.c10d._allgather_base_")->check("%wait_tensor")->run(of_ours.str());
  EXPECT_TENSORS_EQUAL(traced.replay({y})[0], at::cat({y, y}));
  EXPECT_TENSORS_EQUAL(of_ours.replay({y})[0], at::cat({y, y}));
}

DISTRIBUTED_TEST(fake, TestFakePG, test_fake_pg_tracing, {.backends = {"fake"}}) {
  trace_all_gather(at::kCPU);
}

DISTRIBUTED_TEST(fake, TestFakePG, test_fake_pg_tracing_cuda,
                 {.min_gpus = 1, .backends = {"fake"}}) {
  trace_all_gather(at::kCUDA);
}

}  // namespace
}  // namespace distrun
