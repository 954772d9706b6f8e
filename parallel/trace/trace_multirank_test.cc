// Recorded and replayed collectives, on every rank of a run.
//
//     distrun launch --nproc-per-node 3 build/tests/parallel_multirank_test
//         --gtest_filter='TraceMultirankTest.*'
#include <optional>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gmock/gmock.h>
#include <torch/csrc/distributed/c10d/Functional.hpp>
#include <torch/csrc/jit/testing/file_check.h>

#include "distrun/functional.h"
#include "distrun/point_to_point.h"
#include "parallel/trace/test/trace_multirank_fixture.h"

namespace distrun {
namespace {

namespace F = functional;
using ::testing::HasSubstr;

TEST_F(TraceMultirankTest, RecordsAndReplaysEveryCollective) {
  for (const CollectiveCase& one : cases()) {
    SCOPED_TRACE(one.op);
    const Trace its =
        expect_replays([&](const Tensors& x) { return doubled(one.begin(x[0] + 1, {}).second); });
    EXPECT_TRUE(has_no_results(its) || comes_from(its, one.op)) << its.str();
    EXPECT_GE(waits_of(its), 1U);
  }
}

TEST_F(TraceMultirankTest, ReplaysCopiesOfNonContiguousTensors) {
  const auto run = [](bool async_op, bool waits) {
    return [=](const Tensors& x) -> Tensors {
      const at::Tensor columns = (x[0] + 1).t(), all = at::zeros({3, 2 * size()}).t();
      const Work work = all_reduce(columns, ReduceOp::SUM, {.async_op = async_op});
      if (waits) work.wait();
      const Work other = all_gather_into_tensor(all, columns.t(), {.async_op = async_op});
      if (waits) other.wait();
      return {columns * 2, all * 2};
    };
  };
  const Trace its = expect_replays(run(false, false));
  expect_replays(run(true, true));
  EXPECT_THAT(its.str(), HasSubstr("aten.copy_"));
  EXPECT_TRUE(comes_from(its, "c10d.allreduce_")) << its.str();
  const Trace forgotten = trace(run(true, false), {input()});
  expect_equal(forgotten.replay({input() * 7}), run(false, false)({input() * 7}));
}

TEST_F(TraceMultirankTest, ReplaysComplexNumbers) {
  expect_replays([](const Tensors& x) -> Tensors {
    const at::Tensor sum = x[0] * c10::complex<float>(1, 2), other = sum.clone();
    all_reduce(sum);
    broadcast(other, 0, {.async_op = true}).wait();
    return {sum * 2, other * 2};
  });
}

TEST_F(TraceMultirankTest, ReplaysMessagesAndBarriers) {
  const Trace its = expect_replays([](const Tensors& x) -> Tensors {
    const at::Tensor from = x[0] + 1, to = at::zeros_like(from);
    barrier();
    monitored_barrier();
    if (size() == 1) return {from};
    const int next = (get_rank() + 1) % size(), before = (get_rank() + size() - 1) % size();
    const Work receiving = irecv(to, before), sending = isend(from, next);
    const at::Tensor meanwhile = from * 3;  // Sent tensors may be read.
    receiving.wait();
    sending.wait();
    if (get_rank() == 0) send(to + 1, last(), {.tag = 7});
    const at::Tensor any = at::zeros_like(to).t();
    if (is_last()) recv(any.t(), std::nullopt, {.tag = 7});
    const Work strided = irecv(any, before);
    send(meanwhile.t(), next);
    strided.wait();
    return {to * 2, meanwhile, any};
  });
  EXPECT_THAT(its.str(), HasSubstr("c10d.barrier"));
  EXPECT_THAT(its.str(), HasSubstr("c10d.monitored_barrier_"));
  if (size() == 1) return;
  torch::jit::testing::FileCheck()
      .check("%recv_ :")
      ->check("%send :")
      ->check_not("wait_tensor")
      ->check("aten.mul.Scalar")
      ->check("wait_tensor")
      ->run(its.str());
  EXPECT_TRUE(comes_from(its, "c10d.recv_")) << its.str();
}

TEST_F(TraceMultirankTest, ReplaysInTheGroupsOfTheRecording) {
  Group own = new_group({last()}), all = new_group();
  const Trace its = expect_replays([&](const Tensors& x) -> Tensors {
    const at::Tensor one = x[0] + 1, other = x[0] + 2;
    if (own.is_member()) all_reduce(one, ReduceOp::SUM, {.group = own});
    all_reduce(other, ReduceOp::SUM, {.group = all});
    return {other, one};
  });
  EXPECT_THAT(its.str(), HasSubstr("ProcessGroup(2), ReduceOp.SUM"));
  barrier();
  destroy_process_group(all);
  destroy_process_group(own);
  const std::string error = error_of([&] { its.replay({input()}); });
  EXPECT_EQ(error, c10::str("replay: the group ", is_last() ? 1 : 2,
                            " that the trace was made in has been destroyed; make the trace "
                            "again"));
}

TEST_F(TraceMultirankTest, ReplaysAutogradCollectivesAndTheirBackward) {
  const Trace its = expect_replays([](const Tensors& x) -> Tensors {
    const at::Tensor y = x[0].detach().requires_grad_();
    const at::Tensor sum = F::all_reduce(y * y);
    const Tensors all = F::all_gather(sum.sigmoid());
    const at::Tensor part = F::reduce_scatter(all);
    const at::Tensor from = F::broadcast(part, 0);
    from.pow(2).sum().backward();
    return {from.detach(), y.grad()};
  });
  EXPECT_THAT(its.str(), HasSubstr("c10d.alltoall_"));
}

// The type of the group's argument differs between LibTorch versions.
at::Tensor call_functional(const std::string& name, std::vector<c10::IValue> arguments) {
  if (name != "wait_tensor") arguments.emplace_back(default_group().getGroupName());
  c10::Dispatcher::singleton()
      .findSchemaOrThrow(("_c10d_functional::" + name).c_str(), "")
      .callBoxed(arguments);
  return arguments.at(0).toTensor();
}

TEST_F(TraceMultirankTest, RecordsFunctionalOperators) {
  const Trace its = expect_replays([](const Tensors& x) -> Tensors {
    const at::Tensor all = call_functional("all_gather_into_tensor", {x[0] + 1, size()});
    return {call_functional("wait_tensor", {all}) * 2};
  });
  torch::jit::testing::FileCheck()
      .check("%all_gather_into_tensor :")
      ->check("%wait_tensor :")
      ->check_same("(%all_gather_into_tensor,)")
      ->check("aten.mul.Scalar](args = (%wait_tensor, 2)")
      ->run(its.str());
  EXPECT_EQ(waits_of(its), 1U);
  EXPECT_TRUE(comes_from(its, "_c10d_functional.all_gather_into_tensor"));
}

TEST_F(TraceMultirankTest, WaitsBeforeAResultOfAFunctionalOperatorIsUsed) {
  const auto make = [](bool waits) -> Function {
    return [=](const Tensors& x) -> Tensors {
      at::Tensor sum = call_functional("all_reduce", {x[0] + 1, "sum"});
      if (waits) sum = call_functional("wait_tensor", {sum});
      return {sum * 2};
    };
  };
  const Trace its = trace(make(false), {input()});
  EXPECT_TRUE(comes_from(its, "_c10d_functional.all_reduce")) << its.str();
  expect_equal(its.replay({input() * 3}), make(true)({input() * 3}));
}

// These helpers call operators of c10d, not those of _c10d_functional.
TEST_F(TraceMultirankTest, ReplaysFunctionalHelpersOfLibTorch) {
  const Trace its = expect_replays([](const Tensors& x) -> Tensors {
    const at::Tensor sum = c10d::all_reduce(x[0] + 1, "sum", default_group().getGroupName());
    return {c10d::wait_tensor(sum) * 2};
  });
  EXPECT_TRUE(comes_from(its, "c10d.allreduce_")) << its.str();
}

TEST_F(TraceMultirankTest, ReplaysCollectivesCalledOnTheProcessGroup) {
  const Trace its = expect_replays([](const Tensors& x) -> Tensors {
    Tensors outputs = {at::empty_like(x[0])};
    std::vector<Tensors> inputs = {of_all_ranks([&](int rank) { return x[0] * rank; })};
    default_group().reduce_scatter(outputs, inputs)->wait();
    Tensors sum = {x[0] + 1};
    const auto future = default_group().allreduce(sum)->getFuture();
    future->wait();
    return {outputs[0] * 2, sum[0] * 2};
  });
  EXPECT_TRUE(comes_from(its, "c10d.reduce_scatter_")) << its.str();
}

}  // namespace
}  // namespace distrun
