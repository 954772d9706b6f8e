// Traces of collectives, as every rank of a real run makes and replays them:
//
//     distrun launch --nproc-per-node 3 build/tests/trace_ranks_test
//
// Every rank runs every test, in the same order; the run fails if one rank does.
#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/InferenceMode.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/distributed/c10d/Functional.hpp>
#include <torch/csrc/jit/testing/file_check.h>

#include "backends/point_to_point.h"
#include "backends/ranks_testing.h"
#include "parallel/functional.h"
#include "parallel/trace.h"

namespace distrun {
namespace {

namespace F = functional;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class TraceRanksTest : public RanksTest {
 protected:
  using Function = std::function<Tensors(const Tensors&)>;

  static int size() { return get_world_size(); }
  static int last() { return size() - 1; }
  static bool is_last() { return get_rank() == last(); }

  static Tensors empties(const at::Tensor& like) {
    return of_all_ranks([&](int) { return at::empty_like(like); });
  }

  // Records it on one input; on another a replay is what the function is, twice.
  static Trace expect_replays(const Function& function) {
    const Trace its = trace(function, {input()});
    for (const int change : {3, -5}) {
      const at::Tensor eager = input() * change, given = eager.clone();
      const Tensors expected = function({eager}), got = its.replay({given});
      expect_equal(got, expected);
      expect_equal({given}, {eager});
    }
    return its;
  }

  static void expect_equal(const Tensors& got, const Tensors& expected) {
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_TRUE(got[i].equal(expected[i])) << i << ":\n"
                                             << got[i] << "\nexpected\n"
                                             << expected[i];
    }
  }

  // From what is returned, back by way of a wait to the collective: true where there is such a way.
  // Each node on it is among the users of the one before.
  static bool comes_from(const Trace& trace, const std::string& collective) {
    return leads_to(trace.graph().output(), collective, /*has_waited=*/false);
  }
  static bool leads_to(const Node& user, const std::string& collective, bool has_waited) {
    const auto inputs = user.inputs();
    return std::any_of(inputs.begin(), inputs.end(), [&](const Node* node) {
      if (std::count(node->users.begin(), node->users.end(), &user) != 1) return false;
      const bool waits = has_waited || node->op_name() == "_c10d_functional.wait_tensor";
      if (node->op_name() == collective) return waits;
      return leads_to(*node, collective, waits);
    });
  }

  // On ranks that get none.
  static bool has_no_results(const Trace& trace) { return trace.graph().output().inputs().empty(); }

  static std::size_t waits_of(const Trace& trace) {
    std::size_t waits = 0;
    for (const Node& node : trace.graph().nodes()) {
      if (node.op_name() == "_c10d_functional.wait_tensor") ++waits;
    }
    return waits;
  }

  // A collective that writes to `outputs`, and whose work is waited for, or not at all.
  struct Case {
    std::string op;
    std::function<std::pair<Work, Tensors>(const at::Tensor&, const CollectiveOptions&)> begin;
  };
  static std::vector<Case> cases();
};

std::vector<TraceRanksTest::Case> TraceRanksTest::cases() {
  using Begun = std::pair<Work, Tensors>;
  using Options = CollectiveOptions;
  const auto whole = [](const at::Tensor& x) {
    return at::cat(of_all_ranks([&](int rank) { return x * (rank + 1); }));
  };
  const auto parts = [](const at::Tensor& x) {
    return of_all_ranks([&](int rank) { return x * (rank + 1); });
  };
  return {
      {"c10d.broadcast_",
       [](const at::Tensor& x, const Options& o) -> Begun {
         const at::Tensor y = x.clone();
         return {broadcast(y, last(), o), {y}};
       }},
      {"c10d.allreduce_",
       [](const at::Tensor& x, const Options& o) -> Begun {
         const at::Tensor y = x.clone();
         return {all_reduce(y, ReduceOp::MAX, o), {y}};
       }},
      {"c10d.allreduce_coalesced_",
       [](const at::Tensor& x, const Options& o) -> Begun {
         const Tensors y = {x + 1, x + 2};
         return {all_reduce_coalesced(y, ReduceOp::SUM, o), y};
       }},
      {"c10d.reduce_",
       [](const at::Tensor& x, const Options& o) -> Begun {
         const at::Tensor y = x.clone();
         Work work = reduce(y, last(), ReduceOp::SUM, o);
         return {work, is_last() ? Tensors{y} : Tensors{}};
       }},
      {"c10d.allgather_",
       [](const at::Tensor& x, const Options& o) -> Begun {
         const Tensors all = empties(x);
         return {all_gather(all, x, o), all};
       }},
      {"c10d._allgather_base_",
       [](const at::Tensor& x, const Options& o) -> Begun {
         const at::Tensor all = at::empty({2 * size(), 3});
         return {all_gather_into_tensor(all, x, o), {all}};
       }},
      {"c10d.allgather_coalesced_",
       [](const at::Tensor& x, const Options& o) -> Begun {
         const Tensors one = empties(x), other = empties(x);
         Work work = all_gather_coalesced({one, other}, {x, x + 1}, o);
         return {work, {one.back(), other.front()}};
       }},
      {"c10d.gather_",
       [](const at::Tensor& x, const Options& o) -> Begun {
         const Tensors all = is_last() ? empties(x) : Tensors{};
         return {gather(x, all, last(), o), all};
       }},
      {"c10d.scatter_",
       [parts](const at::Tensor& x, const Options& o) -> Begun {
         const at::Tensor own = at::empty_like(x);
         return {scatter(own, is_last() ? parts(x) : Tensors{}, last(), o), {own}};
       }},
      {"c10d.reduce_scatter_",
       [parts](const at::Tensor& x, const Options& o) -> Begun {
         const at::Tensor own = at::empty_like(x);
         return {reduce_scatter(own, parts(x), ReduceOp::SUM, o), {own}};
       }},
      {"c10d._reduce_scatter_base_",
       [whole](const at::Tensor& x, const Options& o) -> Begun {
         const at::Tensor own = at::empty_like(x);
         return {reduce_scatter_tensor(own, whole(x), ReduceOp::SUM, o), {own}};
       }},
      {"c10d.alltoall_",
       [parts](const at::Tensor& x, const Options& o) -> Begun {
         const Tensors all = empties(x);
         return {all_to_all(all, parts(x), o), all};
       }},
      {"c10d.alltoall_base_",
       [whole](const at::Tensor& x, const Options& o) -> Begun {
         const at::Tensor from = whole(x), to = at::empty_like(from);
         return {all_to_all_single(to, from, {}, {}, o), {to}};
       }},
  };
}

Tensors doubled(const Tensors& tensors) {
  Tensors all;
  for (const at::Tensor& one : tensors) all.push_back(one * 2);
  return all;
}

TEST_F(TraceRanksTest, EveryCollectiveIsRecordedAndReplayed) {
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.op);
    const Trace its =
        expect_replays([&](const Tensors& x) { return doubled(one.begin(x[0] + 1, {}).second); });
    EXPECT_TRUE(has_no_results(its) || comes_from(its, one.op)) << its.str();
    EXPECT_GE(waits_of(its), 1U);
  }
}

TEST_F(TraceRanksTest, AWaitIsWhereTheWorkIsWaitedFor) {
  for (const Case& one : cases()) {
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

TEST_F(TraceRanksTest, WhatIsNotWaitedForIsWaitedForBeforeItIsUsed) {
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.op);
    // Eagerly nobody may use it so.
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

TEST_F(TraceRanksTest, WhatIsStillUnderWayIsWaitedForAtTheEnd) {
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

TEST_F(TraceRanksTest, TensorsOfAnyStridesAreCopiedInTheReplayToo) {
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

// An input that is copied first: contiguous() is called below autograd.
TEST_F(TraceRanksTest, WhatIsUnderWayIsWaitedForBeforeItIsCopied) {
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

TEST_F(TraceRanksTest, WhatIsUnderWayIsWaitedForInInferenceMode) {
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

TEST_F(TraceRanksTest, FuturesAndResultsOfCopiedTensorsAreThere) {
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

TEST_F(TraceRanksTest, WhatIsCompletedHasBeenCopied) {
  const Trace its = expect_replays([](const Tensors& x) -> Tensors {
    const at::Tensor sum = (x[0] * 0 + 1).t();
    const Work work = all_reduce(sum, ReduceOp::SUM, {.async_op = true});
    while (!work.is_completed()) std::this_thread::yield();
    EXPECT_EQ(sum.data_ptr<float>()[1], static_cast<float>(size()));
    return {sum + 0};
  });
  EXPECT_EQ(waits_of(its), 1U);
}

TEST_F(TraceRanksTest, CopiesOfAnotherThreadAreRefused) {
  const auto error = error_of([&] {
    trace(
        [](const Tensors& x) -> Tensors {
          const at::Tensor sum = (x[0] + 1).t();
          const Work work = all_reduce(sum, ReduceOp::SUM, {.async_op = true});
          std::thread([&] { work.wait(); }).join();
          return {sum * 2};
        },
        {input()});
  });
  EXPECT_THAT(error, HasSubstr("%allreduce_ has been waited for on a thread that is not recorded"));
}

TEST_F(TraceRanksTest, MessagesHaveTheGroupsTimeoutInAReplay) {
  if (size() == 1) return;
  const Group group = new_group(std::nullopt, {.timeout = std::chrono::seconds(20)});
  const Trace its = trace(
      [&](const Tensors& x) -> Tensors {
        const at::Tensor sum = x[0] + 1;
        if (get_rank() == 0) recv(sum, 1, {.group = group});
        if (get_rank() == 1) send(sum, 0, {.group = group});
        return {sum};
      },
      {input()});
  if (get_rank() == 0) {
    set_timeout(std::chrono::milliseconds(200), group);
    const auto start = std::chrono::steady_clock::now();
    const auto error = error_of<c10::DistBackendError>([&] { its.replay({input()}); });
    EXPECT_THAT(error, StartsWith("replay: %recv_: "));
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  }
  meet("over the message");
  abort_process_group(group);
}

TEST_F(TraceRanksTest, WhatABarrierThrowsInAReplayNamesTheNode) {
  if (size() == 1) return;
  const Group group = new_group();
  const Trace its = trace(
      [&](const Tensors& x) -> Tensors {
        monitored_barrier({.group = group, .timeout = std::chrono::milliseconds(300)});
        return {x[0] + 1};
      },
      {input()});
  if (get_rank() == 0) {
    const auto error = error_of<c10::DistBackendError>([&] { its.replay({input()}); });
    EXPECT_THAT(error, StartsWith("replay: %monitored_barrier_: "));
  }
  meet("over the barrier");
  abort_process_group(group);
}

TEST_F(TraceRanksTest, ComplexNumbersAreReplayed) {
  expect_replays([](const Tensors& x) -> Tensors {
    const at::Tensor sum = x[0] * c10::complex<float>(1, 2), other = sum.clone();
    all_reduce(sum);
    broadcast(other, 0, {.async_op = true}).wait();
    return {sum * 2, other * 2};
  });
}

TEST_F(TraceRanksTest, ConsecutiveCollectivesWaitForEachOther) {
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

// What is sent from one memory at a time need not be waited for in between.
TEST_F(TraceRanksTest, PartsOfATensorAreUnderWayTogether) {
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

TEST_F(TraceRanksTest, MessagesAndBarriersAreReplayed) {
  const Trace its = expect_replays([](const Tensors& x) -> Tensors {
    const at::Tensor from = x[0] + 1, to = at::zeros_like(from);
    barrier();
    monitored_barrier();
    if (size() == 1) return {from};
    const int next = (get_rank() + 1) % size(), before = (get_rank() + size() - 1) % size();
    const Work receiving = irecv(to, before), sending = isend(from, next);
    const at::Tensor meanwhile = from * 3;  // May be read.
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

TEST_F(TraceRanksTest, GroupsAreThoseOfTheRecording) {
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
  EXPECT_THAT(error, HasSubstr("that the trace was made in has been destroyed"));
}

TEST_F(TraceRanksTest, AutogradCollectivesAndTheirBackwardAreReplayed) {
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

// By the dispatcher; what a group is named by has not the same type in all versions of LibTorch.
at::Tensor call_functional(const std::string& name, std::vector<c10::IValue> arguments) {
  if (name != "wait_tensor") arguments.emplace_back(default_group().getGroupName());
  c10::Dispatcher::singleton()
      .findSchemaOrThrow(("_c10d_functional::" + name).c_str(), "")
      .callBoxed(arguments);
  return arguments.at(0).toTensor();
}

TEST_F(TraceRanksTest, FunctionalOperatorsAreNodes) {
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

TEST_F(TraceRanksTest, FunctionalOperatorsThatAreNotWaitedForAreBeforeTheyAreUsed) {
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

// They call no operator of _c10d_functional, but those of c10d.
TEST_F(TraceRanksTest, FunctionalHelpersOfLibTorchAreReplayed) {
  const Trace its = expect_replays([](const Tensors& x) -> Tensors {
    const at::Tensor sum = c10d::all_reduce(x[0] + 1, "sum", default_group().getGroupName());
    return {c10d::wait_tensor(sum) * 2};
  });
  EXPECT_TRUE(comes_from(its, "c10d.allreduce_")) << its.str();
}

TEST_F(TraceRanksTest, CollectivesOfTheGroupItselfAreReplayed) {
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

TEST_F(TraceRanksTest, AnErrorInTheFunctionLeavesTheGroupAsItWas) {
  EXPECT_THROW(trace(
                   [](const Tensors& x) -> Tensors {
                     const at::Tensor sum = x[0] + 1;
                     const Work work = all_reduce(sum, ReduceOp::SUM, {.async_op = true});
                     throw std::runtime_error("no more");
                   },
                   {input()}),
               std::runtime_error);
  const at::Tensor ones = at::ones({2});
  all_reduce(ones);
  EXPECT_TRUE(ones.equal(at::full({2}, size())));
}

TEST_F(TraceRanksTest, AWorkIsWaitedForAfterTheTrace) {
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

// Nobody has called a function of ours that would say more.
TEST_F(TraceRanksTest, WhatABackendThrowsWhereATraceWaitsNamesTheNode) {
  if (size() == 1) return;
  const Group group = new_group();
  if (get_rank() == 0) {
    set_timeout(std::chrono::milliseconds(200), group);
    const auto error = error_of<c10::DistBackendError>([&] {
      trace(
          [&](const Tensors& x) -> Tensors {
            const at::Tensor sum = x[0] + 1;
            const Work work = all_reduce(sum, ReduceOp::SUM, {.group = group, .async_op = true});
            return {sum * 2};
          },
          {input()});
    });
    EXPECT_THAT(error, StartsWith("trace: %allreduce_: "));
  }
  meet("over");
  abort_process_group(group);
}

TEST_F(TraceRanksTest, WhatABackendThrowsInAReplayNamesTheNode) {
  if (size() == 1) return;
  const Group group = new_group();
  const Trace its = trace(
      [&](const Tensors& x) -> Tensors {
        const at::Tensor sum = x[0] + 1;
        all_reduce(sum, ReduceOp::SUM, {.group = group});
        return {sum};
      },
      {input()});
  if (get_rank() == 0) {
    set_timeout(std::chrono::milliseconds(200), group);
    const auto error = error_of<c10::DistBackendError>([&] { its.replay({input()}); });
    EXPECT_THAT(error, StartsWith("replay: %allreduce_: "));
  }
  meet("over");
  abort_process_group(group);
}

}  // namespace
}  // namespace distrun
