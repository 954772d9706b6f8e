#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "distrun/collectives.h"
#include "distrun/process_group.h"
#include "testsuites/testing/default_group.h"

namespace distrun {
namespace {

// Every collective in a world of one, through the dispatcher.
struct GlooProcessGroupWithDispatchedCollectivesTests : DefaultGroupTest {};

DISTRIBUTED_TEST(gloo, GlooProcessGroupWithDispatchedCollectivesTests, test_collectives,
                 {.ranks = 1}) {
  const at::Tensor ones = at::ones({2, 2}), x = at::ones({2, 2});
  reduce(x, 0);
  broadcast(x, 0);
  all_reduce(x);
  barrier();
  EXPECT_TENSORS_EQUAL(x, ones);
  const auto expect_given = [&](const auto& collective) {
    const at::Tensor to = at::zeros({2, 2});
    collective(to);
    EXPECT_TENSORS_EQUAL(to, ones);
  };
  expect_given([&](const at::Tensor& to) { all_gather({to}, x); });
  expect_given([&](const at::Tensor& to) { gather(x, {to}); });
  expect_given([&](const at::Tensor& to) { scatter(to, {x}); });
  expect_given([&](const at::Tensor& to) { reduce_scatter(to, {x}); });
  expect_given([&](const at::Tensor& to) { all_to_all({to}, {x}); });
}

DISTRIBUTED_TEST(gloo, GlooProcessGroupWithDispatchedCollectivesTests, test_allreduce_coalesced,
                 {.ranks = 1}) {
  const Tensors tensors = {at::ones({10, 10})}, expected = {at::full({10, 10}, 1.0)};
  all_reduce_coalesced(tensors);
  EXPECT_TENSORS_EQUAL(tensors, expected);
}

DISTRIBUTED_TEST(gloo, GlooProcessGroupWithDispatchedCollectivesTests, test_all_to_all_single,
                 {.ranks = 1}) {
  const at::Tensor input = at::ones({2, 3}), output = at::zeros({2, 3});
  all_to_all_single(output, input);
  EXPECT_TENSORS_EQUAL(output, input);
  // Python rejects tensors that are not contiguous.
  const at::Tensor columns = at::arange(6, at::kFloat).view({2, 3}).t(), taken = at::zeros({3, 2});
  all_to_all_single(taken, columns);
  EXPECT_TENSORS_EQUAL(taken, columns);
}

DISTRIBUTED_TEST(gloo, GlooProcessGroupWithDispatchedCollectivesTests, test_allgather_coalesced,
                 {.ranks = 1}) {
  const Tensors inputs = {at::ones({10, 10}), at::full({3}, 2.0)};
  const Tensors first = {at::zeros({10, 10})}, second = {at::zeros({3})};
  all_gather_coalesced({first, second}, inputs);
  EXPECT_TENSORS_EQUAL(first[0], inputs[0]);
  EXPECT_TENSORS_EQUAL(second[0], inputs[1]);
}

DISTRIBUTED_TEST(gloo, GlooProcessGroupWithDispatchedCollectivesTests, test_monitored_barrier,
                 {.ranks = 1}) {
  EXPECT_NO_THROW(monitored_barrier());
}

// The backend for CPU tensors of a new default group.
std::string cpu_backend_of(const InitOptions& options) {
  destroy_process_group();
  init_process_group(options);
  return default_group().getBackend(at::kCPU)->getBackendName();
}

DISTRIBUTED_TEST(gloo, GlooProcessGroupWithDispatchedCollectivesTests,
                 test_init_process_group_for_all_backends, {.ranks = 1}) {
  for (const char* backends : {"gloo", "cpu:gloo", "cpu:gloo,cuda:gloo"}) {
    EXPECT_EQ(cpu_backend_of({.backend = backends}), "gloo") << backends;
    EXPECT_EQ(get_backend(), backends);
  }
  destroy_process_group();
  EXPECT_THROWS_WITH(init_process_group("cuda:gluu"), c10::ValueError, "'gluu'");
  init_process_group("cuda:gloo");
  EXPECT_THROW(default_group().getBackend(at::kCPU), c10::Error);
}

DISTRIBUTED_TEST(gloo, GlooProcessGroupWithDispatchedCollectivesTests,
                 test_init_process_group_optional_backend, {.ranks = 1}) {
  EXPECT_EQ(cpu_backend_of({}), "gloo");
}

// For machines without a GPU.
DISTRIBUTED_TEST(gloo, GlooProcessGroupWithDispatchedCollectivesTests, test_default_process_group,
                 {.ranks = 1}) {
  ::setenv("CUDA_VISIBLE_DEVICES", "", 1);
  EXPECT_EQ(cpu_backend_of({}), "gloo");
}

}  // namespace
}  // namespace distrun
