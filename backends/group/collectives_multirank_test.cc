// Every collective, on every rank of a real run:
//
//     distrun launch --nproc-per-node 3 build/tests/backends_multirank_test
//         --gtest_filter='Collective*MultirankTest.*'
//
// Every rank runs every test in the same order.
#include <functional>
#include <future>
#include <numeric>

#include <ATen/ops/cat.h>
#include <ATen/ops/complex.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sparse_coo_tensor.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gmock/gmock.h>
#include <torch/csrc/distributed/c10d/debug.h>

#include "backends/group/libtorch_versions.h"
#include "backends/group/test/collectives_fixture.h"
#include "distrun/point_to_point.h"

namespace distrun {
namespace {

using ::testing::HasSubstr;

class CollectivesMultirankTest : public CollectivesFixture {};

TEST_F(CollectivesMultirankTest, ReduceGivesTheResultToOneRank) {
  for (int dst = 0; dst < get_world_size(); ++dst) {
    const at::Tensor tensor = input();
    reduce(tensor, dst);
    if (get_rank() == dst) {
      EXPECT_TRUE(tensor.equal(sum())) << tensor;
    }
  }
}

TEST_F(CollectivesMultirankTest, AllGatherGivesEveryRankEveryRanksTensor) {
  const Tensors got = empties();
  all_gather(got, input());
  expect_equal(got, inputs());
  const at::Tensor one = at::zeros({2 * get_world_size(), 3});
  all_gather_into_tensor(one, input());
  EXPECT_TRUE(one.equal(at::cat(inputs()))) << one;
}

TEST_F(CollectivesMultirankTest, AllGatherCoalescedTakesListsOfDifferentSizes) {
  const Tensors first = empties(), second = of_all_ranks([](int) { return at::zeros({1}); });
  const at::Tensor number = at::full({1}, 1.0 * get_rank());
  all_gather_coalesced({first, second}, {input(), number});
  expect_equal(first, inputs());
  expect_equal(second, of_all_ranks([](int rank) { return at::full({1}, 1.0 * rank); }));
}

TEST_F(CollectivesMultirankTest, GatherAndScatterUseTheRoot) {
  for (int root = 0; root < get_world_size(); ++root) {
    const Tensors got = get_rank() == root ? empties() : Tensors();
    gather(input(), got, root);
    if (get_rank() == root) expect_equal(got, inputs());
    const at::Tensor own = at::zeros({2, 3});
    scatter(own, get_rank() == root ? inputs() : Tensors(), GroupRank(root));
    EXPECT_TRUE(own.equal(input())) << own;
  }
}

TEST_F(CollectivesMultirankTest, ReduceScatterGivesEachRankItsPartOfTheResult) {
  const auto part_of = [](int rank) { return [rank](int part) { return input_of(rank) * part; }; };
  const at::Tensor expected = sum() * get_rank();
  at::Tensor got = at::zeros({2, 3});
  reduce_scatter(got, of_all_ranks(part_of(get_rank())));
  EXPECT_TRUE(got.equal(expected)) << got;
  got = at::zeros({2, 3});
  reduce_scatter_tensor(got, at::cat(of_all_ranks(part_of(get_rank()))));
  EXPECT_TRUE(got.equal(expected)) << got;
}

TEST_F(CollectivesMultirankTest, ReduceScatterUsesTheReduceOp) {
  const at::Tensor got = at::zeros({2, 3});
  reduce_scatter(got, of_all_ranks([](int) { return input(); }), ReduceOp::MAX);
  EXPECT_TRUE(got.equal(inputs().back())) << got;
  got.zero_();
  reduce_scatter_tensor(got, at::cat(of_all_ranks([](int) { return input(); })), ReduceOp::MAX);
  EXPECT_TRUE(got.equal(inputs().back())) << got;
}

// The backend may get copies or views of them.
TEST_F(CollectivesMultirankTest, WorkReturnsTheCallersTensors) {
  const int ranks = get_world_size();
  const auto result_of = [](const Work& work) {
    work.wait();
    EXPECT_TRUE(work.get_future()->completed());
    const at::IValue value = work.get_future()->value();
    return value.toList().get(0).toTensor();
  };
  const CollectiveOptions async{.async_op = true};
  const at::Tensor complex = at::complex(input(), input());
  EXPECT_TRUE(result_of(all_reduce(complex, ReduceOp::SUM, async)).is_same(complex));
  const at::Tensor strided = at::zeros({3, 2}).t();
  EXPECT_TRUE(result_of(broadcast(strided, 0, async)).is_same(strided));
  const at::Tensor stacked = at::zeros({3, 2, ranks}).permute({2, 1, 0});
  all_gather_into_tensor(stacked, input());
  EXPECT_TRUE(stacked.equal(at::stack(inputs()))) << stacked;
}

TEST_F(CollectivesMultirankTest, AllToAllGivesEachRankItsPart) {
  const auto sent = [](int from, int to) { return at::full({2, 3}, 10.0 * from + to); };
  const Tensors got = empties();
  all_to_all(got, of_all_ranks([&](int to) { return sent(get_rank(), to); }));
  expect_equal(got, of_all_ranks([&](int from) { return sent(from, get_rank()); }));
}

TEST_F(CollectivesMultirankTest, NewNamesBehaveLikeOldNames) {
  const int ranks = get_world_size();
  const at::Tensor all = at::zeros({2 * ranks, 3});
  all_gather_single(all, input());
  EXPECT_TRUE(all.equal(at::cat(inputs()))) << all;
  const at::Tensor part = at::zeros({2, 3});
  reduce_scatter_single(part, all, ReduceOp::MAX);
  EXPECT_TRUE(part.equal(input())) << part;
}

TEST_F(CollectivesMultirankTest, GatherSingleFillsTheTensorOfTheRoot) {
  for (int root = 0; root < get_world_size(); ++root) {
    // Strides and sizes do not matter, only the number of elements.
    const at::Tensor got = at::full({3, 2, get_world_size()}, -1.0).permute({2, 1, 0});
    const Work work = gather_single(input(), got, root, {.async_op = true});
    work.wait();
    const at::Tensor expected = get_rank() == root ? at::stack(inputs()) : at::full_like(got, -1.0);
    EXPECT_TRUE(got.equal(expected)) << got;
  }
  const at::Tensor none = at::zeros({0});
  gather_single(none, none);
  const at::Tensor numbers = at::zeros({get_world_size()}, at::kComplexFloat);
  gather_single(at::full({}, c10::complex<float>(1, 2)), is_last() ? numbers : at::Tensor(),
                get_world_size() - 1);
  if (!is_last()) return;
  EXPECT_TRUE(numbers.eq(c10::complex<float>(1, 2)).all().item<bool>()) << numbers;
}

TEST_F(CollectivesMultirankTest, GroupHooksSeeCollectives) {
#if DISTRUN_LIBTORCH_SINCE(2, 14)
  const auto group = Group().process_group();
  std::vector<std::int64_t> begun, ended;
  group->registerPreHook(1, [&](const c10d::PreHookArgs& call) {
    EXPECT_EQ(call.name, c10d::HookOpName::ALLREDUCE);
    begun.push_back(call.op_id);
  });
  group->registerPostHook(1, [&](const c10d::PostHookArgs& call) { ended.push_back(call.op_id); });
  all_reduce(input());
  all_reduce(input());
  group->unregisterPreHook(1);
  group->unregisterPostHook(1);
  all_reduce(input());
  EXPECT_EQ(begun.size(), 2u);
  EXPECT_EQ(begun, ended);
#else
  GTEST_SKIP() << "LibTorch has hooks since 2.14";
#endif
}

// Rank r sends r + 1 rows to every rank: first floats, then complex numbers into strided outputs.
TEST_F(CollectivesMultirankTest, AllToAllTakesTensorsOfDifferentSizes) {
  const auto sent = [](int from, int to) { return at::full({from + 1, 3}, 10.0 * from + to); };
  const auto inputs_of = [&](int from) {
    return of_all_ranks([&](int to) { return sent(from, to); });
  };
  const auto expected = of_all_ranks([&](int from) { return sent(from, get_rank()); });
  const Tensors got = of_all_ranks([](int from) { return at::zeros({from + 1, 3}); });
  all_to_all(got, inputs_of(get_rank()));
  expect_equal(got, expected);

  Tensors inputs, outputs, numbers;
  for (const at::Tensor& one : inputs_of(get_rank())) inputs.push_back(at::complex(one, -one));
  for (const at::Tensor& one : expected) {
    outputs.push_back(at::zeros({3, one.size(0)}, at::kComplexFloat).t());
    numbers.push_back(at::complex(one, -one));
  }
  all_to_all(outputs, inputs);
  expect_equal(outputs, numbers);
}

// Only the last rank's part for itself is larger; the other ranks see one size.
TEST_F(CollectivesMultirankTest, AllToAllWorksIfOnlyOneRankHasUnevenSizes) {
  const auto value = [](int from, int to) {
    const bool is_large = from == to && from == get_world_size() - 1;
    return at::full({is_large ? 5 : 2}, 10.0 * from + to);
  };
  const Tensors expected = of_all_ranks([&](int from) { return value(from, get_rank()); });
  Tensors got;
  for (const at::Tensor& one : expected) got.push_back(at::zeros_like(one));
  all_to_all(got, of_all_ranks([&](int to) { return value(get_rank(), to); }));
  expect_equal(got, expected);
}

// Rank r sends r + 1 rows to every rank.
TEST_F(CollectivesMultirankTest, AllToAllSingleTakesUnevenParts) {
  const int ranks = get_world_size();
  const at::Tensor input = at::full({ranks * (get_rank() + 1), 2}, 1.0 * get_rank());
  const std::vector<std::int64_t> sent(static_cast<std::size_t>(ranks), get_rank() + 1);
  std::vector<std::int64_t> received(static_cast<std::size_t>(ranks));
  std::iota(received.begin(), received.end(), 1);
  const at::Tensor output = at::zeros({ranks * (ranks + 1) / 2, 2});
  all_to_all_single(output, input, received, sent);
  const auto from = [](int rank) { return at::full({rank + 1, 2}, 1.0 * rank); };
  EXPECT_TRUE(output.equal(at::cat(of_all_ranks(from)))) << output;
}

TEST_F(CollectivesMultirankTest, AllReduceCoalescedReducesEachTensor) {
  const Tensors tensors = {input(), input().slice(0, 0, 1).clone()};
  all_reduce_coalesced(tensors, ReduceOp::MAX);
  EXPECT_TRUE(tensors[0].equal(inputs().back())) << tensors[0];
  EXPECT_TRUE(tensors[1].equal(inputs().back().slice(0, 0, 1))) << tensors[1];
}

TEST_F(CollectivesMultirankTest, AllReduceAddsSparseTensorsWithDifferentIndices) {
  const at::Tensor index = at::full({1, 1}, get_rank(), at::kLong);
  const at::Tensor sparse =
      at::sparse_coo_tensor(index, at::ones({1}), {get_world_size()}, at::kFloat);
  all_reduce(sparse);
  EXPECT_TRUE(sparse.to_dense().equal(at::ones({get_world_size()}))) << sparse;
}

TEST_F(CollectivesMultirankTest, AsynchronousCollectiveCompletesWithItsWait) {
  const at::Tensor tensor = input();
  const Work work = all_reduce(tensor, ReduceOp::SUM, {.async_op = true});
  ASSERT_TRUE(work);
  work.wait();
  EXPECT_TRUE(work.is_completed());
  EXPECT_TRUE(tensor.equal(sum())) << tensor;
  EXPECT_FALSE(all_reduce(tensor)) << "a synchronous call returns no work";
}

TEST_F(CollectivesMultirankTest, WorkKeepsItsTensorsAndGroupAlive) {
  Work work;
  {
    const Group group = new_group();
    work = all_reduce(input(), ReduceOp::SUM, {.group = group, .async_op = true});
  }
  EXPECT_NO_THROW(work.wait());
}

TEST_F(CollectivesMultirankTest, BytesOfAnyLengthArriveComplete) {
  const auto bytes_of = [](int rank) {
    return std::string(static_cast<std::size_t>(rank), 'a') + '\0';
  };
  const auto all = of_all_ranks(bytes_of);
  EXPECT_EQ(all_gather_bytes(bytes_of(get_rank())), all);
  const int last = get_world_size() - 1;
  EXPECT_EQ(gather_bytes(bytes_of(get_rank()), last), is_last() ? all : decltype(all)());
  EXPECT_EQ(broadcast_bytes(bytes_of(get_rank()), last), bytes_of(last));
  EXPECT_EQ(broadcast_bytes("", 0), "");
  EXPECT_THAT(error_of([] { broadcast_bytes("", -1); }), HasSubstr("broadcast_bytes on rank "));
  EXPECT_EQ(all_gather_bytes(""), of_all_ranks([](int) { return std::string(); }));
}

TEST_F(CollectivesMultirankTest, EveryRankGetsItsOwnBytesOfAScatter) {
  const auto bytes_of = [](int rank) {
    return std::string(static_cast<std::size_t>(rank), 'a') + '\0' + std::to_string(rank);
  };
  const int last = get_world_size() - 1;
  const auto all = of_all_ranks(bytes_of);
  EXPECT_EQ(scatter_bytes(is_last() ? all : decltype(all)(), last), bytes_of(get_rank()));
  const std::vector<std::string> nothing(static_cast<std::size_t>(get_world_size()));
  EXPECT_EQ(scatter_bytes(get_rank() == 0 ? nothing : decltype(all)()), "");
}

// The callback holds the last copies and runs on a backend thread. The last rank starts its
// collective after the other ranks have dropped their copies. With DETAIL it cannot, because the
// others' calls block until it starts.
TEST_F(CollectivesMultirankTest, BackendThreadMayDropTheLastCopiesOfAGroupAndAWork) {
  const auto called = std::make_shared<std::promise<void>>();
  std::function<void()> leaves;
  {
    const Group group = new_group();
    barrier({.group = group});
    const auto store = default_group().getStore();
    const auto has_gone = [](int rank) { return "has gone" + std::to_string(rank); };
    const bool waits = is_last() && c10d::debug_level() != c10d::DebugLevel::Detail;
    for (int rank = 0; waits && rank < get_rank(); ++rank) store->wait({has_gone(rank)});
    const Work work = all_reduce(input(), ReduceOp::SUM, {.group = group, .async_op = true});
    work.get_future()->addCallback([work, group, called](auto&) { called->set_value(); });
    leaves = [store, key = has_gone(get_rank())] { store->set(key, ""); };
  }
  leaves();
  EXPECT_EQ(called->get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
}

TEST_F(CollectivesMultirankTest, SecondWaitReturnsAtOnce) {
  const at::Tensor got = at::zeros({2, 3});
  const Work work =
      reduce_scatter_tensor(got, at::cat(inputs()), ReduceOp::SUM, {.async_op = true});
  work.wait();
  EXPECT_TRUE(work.is_completed());
  got.zero_();
  work.wait();
  EXPECT_TRUE(got.equal(at::zeros({2, 3}))) << "written by a second wait: " << got;
  if (get_world_size() == 1) return;
  const Work sent = isend(input(), next()), received = irecv(got, previous());
  for (int i = 0; i < 2; ++i) {
    sent.wait();
    received.wait();
    EXPECT_TRUE(sent.is_completed());
    EXPECT_EQ(received.source_rank(), previous());
  }
  EXPECT_TRUE(got.equal(input_of(previous()))) << got;
}

}  // namespace
}  // namespace distrun
