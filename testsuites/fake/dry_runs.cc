#include <ATen/Functions.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include "distrun/collectives.h"
#include "distrun/distributed_data_parallel.h"
#include "distrun/fake.h"
#include "distrun/functional.h"
#include "distrun/process_group.h"
#include "distrun/testing.h"
#include "distrun/trace.h"

namespace distrun {
namespace {

namespace F = functional;

// One process acts as one of a thousand ranks.
class DryRunTest : public DistributedTest {
 protected:
  static constexpr int kRanks = 1024;

  void SetUp() override {
    init_process_group({.backend = "fake", .rank = 5, .world_size = kRanks});
  }
  void TearDown() override {
    if (is_initialized()) destroy_process_group();
  }

  // The traffic of an operation in all groups.
  static WireTraffic traffic_of(const std::string& operation) {
    for (const WireTraffic& one : wire_traffic_of_all_groups()) {
      if (one.operation == operation) return one;
    }
    return {};
  }
};

// All ranks seem to have this rank's gradients, but the mean is a thousandth of them: the backend
// fakes the sum, and the division is real.
DISTRIBUTED_TEST(fake, DryRunTest, test_ddp_step, {.backends = {"fake"}}) {
  const torch::nn::Linear net(8, 4);
  DistributedDataParallel ddp(net);
  torch::optim::SGD optimizer(ddp.parameters(), torch::optim::SGDOptions(0.1));
  reset_wire_traffic();
  for (int step = 1; step <= 3; ++step) {
    optimizer.zero_grad();
    ddp(at::ones({2, 8})).sum().backward();
    EXPECT_TENSORS_CLOSE(net->bias.grad(), at::full({4}, 2.0 / kRanks));
    EXPECT_TENSORS_CLOSE(net->weight.grad(), at::full({4, 8}, 2.0 / kRanks));
    optimizer.step();
    EXPECT_EQ(traffic_of("all_reduce").calls, step);
  }
  constexpr std::int64_t kGradients = 4 * (8 * 4 + 4);
  EXPECT_EQ(traffic_of("all_reduce").payload, 3 * kGradients);
  // Rounded: the rest is under a byte.
  EXPECT_EQ(traffic_of("all_reduce").sent, 3 * 2 * kGradients);
}

DISTRIBUTED_TEST(fake, DryRunTest, test_ddp_hooks, {.backends = {"fake"}}) {
  const torch::nn::Linear net(8, 4);
  DistributedDataParallel ddp(net, {.gradient_as_bucket_view = true});
  ddp.register_builtin_comm_hook(BuiltinCommHook::FP16_COMPRESS);
  reset_wire_traffic();
  ddp(at::ones({2, 8})).sum().backward();
  EXPECT_EQ(traffic_of("all_reduce").payload, 2 * (8 * 4 + 4));
  EXPECT_TRUE(net->bias.grad().defined());
}

DISTRIBUTED_TEST(fake, DryRunTest, test_autograd_collectives, {.backends = {"fake"}}) {
  const at::Tensor x = at::full({2, 3}, 2.0F).requires_grad_();
  const Tensors all = F::all_gather(x);
  EXPECT_EQ(all.size(), static_cast<std::size_t>(kRanks));
  const at::Tensor mean = F::all_reduce(at::stack(all).sum(0), ReduceOp::AVG);
  const at::Tensor part = F::reduce_scatter(Tensors(kRanks, F::broadcast(mean, 0)));
  const Tensors swapped = F::all_to_all(Tensors(kRanks, part), Tensors(kRanks, part));
  F::all_to_all_single(at::empty({kRanks, 3}), at::stack(swapped).select(1, 0)).sum().backward();
  EXPECT_EQ(x.grad().sizes(), x.sizes());
}

// In deterministic mode, unwritten memory is NaN.
DISTRIBUTED_TEST(fake, DryRunTest, test_autograd_with_another_root, {.backends = {"fake"}}) {
  at::globalContext().setDeterministicAlgorithms(true, false);
  const at::Tensor x = at::full({2, 3}, 2.0F).requires_grad_();
  const at::Tensor part = F::scatter(Tensors(kRanks, x), /*src=*/0);
  const Tensors gathered = F::gather(part + x, /*dst=*/0);
  at::stack(gathered).sum().backward();
  at::globalContext().setDeterministicAlgorithms(false, false);
  EXPECT_TENSORS_EQUAL(part, at::zeros({2, 3}));
  EXPECT_TENSORS_EQUAL(gathered.at(0), at::zeros({2, 3}));
  EXPECT_TENSORS_EQUAL(x.grad(), at::zeros({2, 3}));
}

// Every rank, including the root, sends it a gradient.
DISTRIBUTED_TEST(fake, DryRunTest, test_autograd_on_the_root, {.backends = {"fake"}}) {
  const at::Tensor x = at::full({2, 3}, 2.0F).requires_grad_();
  const at::Tensor part = F::scatter(Tensors(kRanks, x), /*src=*/5);
  EXPECT_TENSORS_EQUAL(part, x);
  const Tensors gathered = F::gather(part, /*dst=*/5);
  at::stack(gathered).sum().backward();
  EXPECT_TENSORS_EQUAL(gathered.at(7), x);
  EXPECT_TENSORS_EQUAL(x.grad(), at::full({2, 3}, 1.0F * kRanks));
}

DISTRIBUTED_TEST(fake, DryRunTest, test_subgroups, {.backends = {"fake"}}) {
  const Subgroups nodes = new_subgroups(8);
  EXPECT_EQ(nodes.all.size(), static_cast<std::size_t>(kRanks / 8));
  const at::Tensor x = at::ones({8}), part = at::zeros({1});
  reduce_scatter_tensor(part, x, ReduceOp::SUM, {.group = *nodes.own});
  all_gather_into_tensor(x, part, {.group = *nodes.own});
  EXPECT_TENSORS_EQUAL(x, at::ones({8}));
  EXPECT_EQ(traffic_of("all_gather_into_tensor").sent, 7 * 4);
  EXPECT_TRUE(wire_traffic().empty());
}

DISTRIBUTED_TEST(fake, DryRunTest, test_async_and_futures, {.backends = {"fake"}}) {
  const at::Tensor x = at::ones({3});
  const Work work = all_reduce(x, ReduceOp::SUM, {.async_op = true});
  EXPECT_TRUE(work.is_completed());
  const auto twice = work.get_future()->then(
      [](c10::ivalue::Future& its) { return its.value().toTensorVector().at(0) * 2; },
      c10::TensorType::get());
  twice->wait();
  EXPECT_TENSORS_EQUAL(twice->value().toTensor(), at::full({3}, 2.0F));
}

DISTRIBUTED_TEST(fake, DryRunTest, test_trace_of_a_step, {.backends = {"fake"}}) {
  const auto step = [](const Tensors& x) -> Tensors {
    const at::Tensor sum = (x[0] * 2).t();  // Makes the backend get a copy.
    all_reduce(sum);
    const at::Tensor parts = at::empty({kRanks, 4});
    const Work work =
        all_gather_into_tensor(parts, sum.sum(0, /*keepdim=*/true), {.async_op = true});
    work.wait();
    return {parts.sum(0)};
  };
  const at::Tensor x = at::arange(12, at::kFloat).view({4, 3});
  const Trace traced = trace(step, {x});
  EXPECT_TENSORS_EQUAL(traced.replay({x + 1})[0], step({x + 1})[0]);
  EXPECT_EQ(traffic_of("all_reduce").calls, 3);
}

}  // namespace
}  // namespace distrun
