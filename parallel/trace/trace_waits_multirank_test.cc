// When a trace waits for collectives.
#include <stdexcept>
#include <string>

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/jit/testing/file_check.h>

#include "parallel/trace/test/trace_multirank_fixture.h"

namespace distrun {
namespace {

TEST_F(TraceMultirankTest, RecordsAWaitWhenTheFunctionWaits) {
  for (const CollectiveCase& one : cases()) {
    SCOPED_TRACE(one.op);
    const Trace its = expect_replays([&](const Tensors& x) {
      const auto [work, outputs] = one.begin(x[0] + 1, {.async_op = true});
      static_cast<void>(at::ones({1}).neg());
      work.wait();
      work.wait();
      return doubled(outputs);
    });
    EXPECT_TRUE(has_no_results(its) || comes_from(its, one.op)) << its.str();
    const std::string begin = "torch.ops." + one.op + ".default";
    torch::jit::testing::FileCheck()
        .check(begin)
        ->check_not("wait_tensor")
        ->check("aten.neg")
        ->check("wait_tensor.default")
        ->check("return")
        ->run(its.str());
  }
}

TEST_F(TraceMultirankTest, WaitsBeforeAResultIsUsed) {
  for (const CollectiveCase& one : cases()) {
    SCOPED_TRACE(one.op);
    // Outside a trace, the missing wait would be a race.
    const auto make = [&](bool waits) -> Function {
      return [&, waits](const Tensors& x) {
        const auto [work, outputs] = one.begin(x[0] + 1, {.async_op = true});
        if (waits) work.wait();
        return doubled(outputs);
      };
    };
    const Trace its = trace(make(false), {input()});
    expect_equal(its.replay({input() * 3}), make(true)({input() * 3}));
    EXPECT_TRUE(has_no_results(its) || comes_from(its, one.op)) << its.str();
    EXPECT_GE(waits_of(its), 1U);
  }
}

TEST_F(TraceMultirankTest, WaitsAtTheEndForCollectivesInProgress) {
  Work work;
  const Trace its = trace(
      [&](const Tensors& x) -> Tensors {
        const at::Tensor sum = x[0] + 1;
        work = all_reduce(sum, ReduceOp::SUM, {.async_op = true});
        return {sum};
      },
      {input()});
  EXPECT_TRUE(work.is_completed());
  work.wait();
  const at::Tensor expected = input() * 2 + 1;
  all_reduce(expected);
  expect_equal(its.replay({input() * 2}), {expected});
  EXPECT_EQ(waits_of(its), 1U);
}

// all_gather() copies its input with contiguous(), which is called below autograd.
TEST_F(TraceMultirankTest, WaitsBeforeAResultIsCopied) {
  const auto make = [](bool waits) -> Function {
    return [=](const Tensors& x) -> Tensors {
      const at::Tensor sum = x[0] + 1;
      const Work work = all_reduce(sum, ReduceOp::SUM, {.async_op = true});
      if (waits) work.wait();
      const Tensors all = of_all_ranks([](int) { return at::zeros({3, 2}); });
      all_gather(all, sum.t());
      return {all[0] + 0};
    };
  };
  const Trace its = trace(make(false), {input()});
  torch::jit::testing::FileCheck()
      .check("%allreduce_ :")
      ->check("wait_tensor")
      ->check("aten.clone")
      ->check("%allgather_ :")
      ->run(its.str());
  expect_equal(its.replay({input() * 3}), make(true)({input() * 3}));
}

TEST_F(TraceMultirankTest, WaitsInInferenceMode) {
  const auto make = [](bool waits) -> Function {
    return [=](const Tensors& x) -> Tensors {
      const c10::InferenceMode mode;
      const at::Tensor sum = x[0] * 3;
      const Work work = all_reduce(sum, ReduceOp::SUM, {.async_op = true});
      if (waits) work.wait();
      return {sum.to(at::kDouble)};
    };
  };
  const Trace its = trace(make(false), {input()});
  torch::jit::testing::FileCheck().check("wait_tensor")->check("aten._to_copy")->run(its.str());
  expect_equal(its.replay({input() * 3}), make(true)({input() * 3}));
}

TEST_F(TraceMultirankTest, ReturnsFuturesAndResultsOfCopiedTensors) {
  for (const bool is_complex : {false, true}) {
    expect_replays([&](const Tensors& x) -> Tensors {
      const at::Tensor sum = is_complex ? x[0] * c10::complex<float>(1, 2) : (x[0] * 1).t();
      const Work work = all_reduce(sum, ReduceOp::SUM, {.async_op = true});
      const auto future = work.get_future();
      future->wait();
      EXPECT_TRUE(future->value().toTensorList().get(0).is_same(sum));
      EXPECT_TRUE(work.result().at(0).is_same(sum));
      return {sum * 2};
    });
  }
}

TEST_F(TraceMultirankTest, CopiesResultsBeforeAWorkIsCompleted) {
  const Trace its = expect_replays([](const Tensors& x) -> Tensors {
    const at::Tensor sum = (x[0] * 0 + 1).t();
    const Work work = all_reduce(sum, ReduceOp::SUM, {.async_op = true});
    while (!work.is_completed()) std::this_thread::yield();
    EXPECT_EQ(sum.data_ptr<float>()[1], static_cast<float>(size()));
    return {sum + 0};
  });
  EXPECT_EQ(waits_of(its), 1U);
}

TEST_F(TraceMultirankTest, WaitsBetweenConsecutiveCollectives) {
  const Trace its = expect_replays([](const Tensors& x) -> Tensors {
    const at::Tensor sum = x[0] + x[0];
    all_reduce(sum, ReduceOp::SUM, {.async_op = true}).wait();
    const Work work = all_reduce(sum, ReduceOp::SUM, {.async_op = true});
    work.wait();
    return {sum * 2};
  });
  torch::jit::testing::FileCheck()
      .check("%allreduce_ :")
      ->check("%wait_tensor :")
      ->check("%allreduce__1 :")
      ->check_same("[%wait_tensor]")
      ->check("%wait_tensor_1 :")
      ->check("aten.mul.Scalar](args = (%wait_tensor_1, 2)")
      ->run(its.str());
}

// Collectives on disjoint parts of one memory need no wait in between.
TEST_F(TraceMultirankTest, RunsCollectivesOnPartsOfATensorTogether) {
  const Trace its = expect_replays([](const Tensors& x) -> Tensors {
    const at::Tensor all = x[0].clone();
    const Work first = all_reduce(all.select(0, 0), ReduceOp::SUM, {.async_op = true});
    const Work second = all_reduce(all.select(0, 1), ReduceOp::MAX, {.async_op = true});
    first.wait();
    second.wait();
    return {all * 2};
  });
  torch::jit::testing::FileCheck()
      .check("%allreduce_ :")
      ->check_not("wait_tensor")
      ->check("%allreduce__1 :")
      ->check("wait_tensor")
      ->run(its.str());
}

TEST_F(TraceMultirankTest, WaitsForAWorkAfterTheTrace) {
  Work work;
  const at::Tensor kept = input();
  const auto make = [&]() -> Tensors {
    work = all_reduce(kept.t(), ReduceOp::SUM, {.async_op = true});
    throw std::runtime_error("no more");
  };
  EXPECT_THROW(trace([&](const Tensors&) { return make(); }, {input()}), std::runtime_error);
  work.wait();
  EXPECT_TRUE(kept.equal(at::stack(of_all_ranks(input_of)).sum(0)));
}

}  // namespace
}  // namespace distrun
