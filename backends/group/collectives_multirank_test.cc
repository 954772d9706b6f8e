// Tests every collective on every rank of a real run:
//
//     distrun launch --nproc-per-node 3 build/tests/backends_multirank_test
//         --gtest_filter='CollectivesMultirankTest.*'
//
// Every rank runs every test in the same order.  If one rank fails, the run fails.
#include <functional>
#include <future>
#include <limits>
#include <numeric>
#include <thread>

#include <ATen/ops/cat.h>
#include <ATen/ops/complex.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sparse_coo_tensor.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gmock/gmock.h>
#include <torch/csrc/distributed/c10d/debug.h>

#include "backends/group/libtorch_versions.h"
#include "backends/test/multirank_test.h"
#include "distrun/point_to_point.h"

namespace distrun {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class CollectivesMultirankTest : public MultirankTest {
 protected:
  static Tensors empties() {
    return of_all_ranks([](int) { return at::full({2, 3}, -1.0); });
  }
  static Tensors inputs() { return of_all_ranks(input_of); }
  static at::Tensor sum() { return at::stack(inputs()).sum(0); }
  static bool is_last() { return get_rank() == get_world_size() - 1; }
  static int next(int by = 1) { return (get_rank() + by) % get_world_size(); }
  static int previous() { return next(get_world_size() - 1); }

  static void expect_equal(const Tensors& got, const Tensors& expected) {
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_TRUE(got[i].equal(expected[i])) << "of rank " << i << ": " << got[i];
    }
  }

  template <class Act>
  static std::string error_of(const Act& act) {
    return MultirankTest::error_of<c10::ValueError>(act);
  }
};

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

TEST_F(CollectivesMultirankTest, SingleTensorFormsCheckOnlyTheNumberOfElements) {
  const int ranks = get_world_size();
  const at::Tensor stacked = at::zeros({ranks, 2, 3});
  all_gather_into_tensor(stacked, input());
  EXPECT_TRUE(stacked.equal(at::stack(inputs()))) << stacked;
  const at::Tensor part = at::zeros({2, 3});
  reduce_scatter_tensor(part, stacked);
  EXPECT_TRUE(part.equal(input() * ranks)) << part;
  const at::Tensor number = at::zeros({});
  reduce_scatter_tensor(number, at::ones({ranks}));
  EXPECT_EQ(number.item<double>(), ranks);
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

TEST_F(CollectivesMultirankTest, GatherSingleRejectsUndefinedAndWrongSizedTensors) {
  if (get_rank() != 0) return;
  EXPECT_THAT(error_of([] { gather_single(input()); }),
              HasSubstr("gather_single on rank 0: gather_tensor is an undefined tensor"));
  EXPECT_THAT(error_of([] { gather_single(input(), at::zeros({5})); }),
              AllOf(HasSubstr("gather_tensor has 5 elements"), HasSubstr("as many as tensor")));
}

// LibTorch 2.14 renames functions of backends.  Its groups and programs call either name.
TEST_F(CollectivesMultirankTest, BackendMovesEveryDtypeByOldAndNewNames) {
  const auto backend = default_group().getBackend(at::kCPU);
  const int ranks = get_world_size();
  const auto value = [](int rank) { return at::full({2}, rank, at::kShort); };
  const at::Tensor expected = at::cat(of_all_ranks(value));
  at::Tensor in = value(get_rank());
  const auto expect_gathered = [&](const auto& gather) {
    Tensors out = {at::zeros({2 * ranks}, at::kShort)};
    gather(out)->wait();
    EXPECT_TRUE(out[0].equal(expected)) << out[0];
  };
  Tensors ins = {in};
  expect_gathered([&](Tensors& out) { return backend->_allgather_base(out[0], in, {}); });
  expect_gathered(
      [&](Tensors& out) { return backend->allgather_into_tensor_coalesced(out, ins, {}); });
  at::Tensor own = expected.clone();
  std::vector<std::int64_t> even;
  const auto expect_exchanged = [&](const auto& exchange) {
    at::Tensor out = at::zeros({2 * ranks}, at::kShort);
    exchange(out)->wait();
    EXPECT_TRUE(out.equal(value(get_rank()).repeat({ranks}))) << out;
  };
  expect_exchanged(
      [&](at::Tensor& out) { return backend->alltoall_base(out, own, even, even, {}); });
#if DISTRUN_LIBTORCH_SINCE(2, 14)
  expect_gathered([&](Tensors& out) { return backend->all_gather_single(out[0], in, {}); });
  expect_gathered([&](Tensors& out) { return backend->all_gather_single_coalesced(out, ins, {}); });
  expect_exchanged(
      [&](at::Tensor& out) { return backend->all_to_all_single(out, own, even, even, {}); });
  for (const bool is_old : {false, true}) {
    at::Tensor out = at::zeros({is_last() ? 2 * ranks : 0}, at::kShort);
    const c10d::GatherOptions to_last{.rootRank = ranks - 1};
    (is_old ? backend->gather_into_tensor(out, in, to_last)
            : backend->gather_single(out, in, to_last))
        ->wait();
    if (!is_last()) continue;
    EXPECT_TRUE(out.equal(expected)) << out;
  }
#endif
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

// Only the part that the last rank sends to itself is larger.  The other ranks see one size.
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

TEST_F(CollectivesMultirankTest, AddsAndMovesComplexNumbers) {
  const auto number = [](int rank) { return at::complex(input_of(rank), -input_of(rank)); };
  const at::Tensor added = number(get_rank());
  all_reduce(added);
  EXPECT_TRUE(added.equal(at::complex(sum(), -sum()))) << added;
  const Tensors got = of_all_ranks([&](int) { return at::zeros_like(number(0)); });
  all_gather(got, number(get_rank()));
  expect_equal(got, of_all_ranks(number));
  EXPECT_THAT(error_of([&] { all_reduce(added, ReduceOp::PRODUCT); }),
              HasSubstr("complex numbers have no PRODUCT"));
}

TEST_F(CollectivesMultirankTest, AcceptsHalfAndBool) {
  const at::Tensor half = input().to(at::kHalf);
  all_reduce(half);
  EXPECT_TRUE(half.equal(sum().to(at::kHalf))) << half;
  const at::Tensor yes = at::full({2}, is_last(), at::kBool);
  broadcast(yes, get_world_size() - 1);
  EXPECT_TRUE(yes.all().item<bool>());
}

// Values of a dtype that few operators support.  Gloo supports only BFloat16 of kDtypes.
class OfDtype {
 public:
  explicit OfDtype(at::ScalarType type) : type_(type) {}
  at::Tensor value(int rank, int size = 3) const {
    return (at::arange(size, at::kFloat) + rank).to(type_);
  }
  at::Tensor empty(int size = 3) const { return at::zeros({size}, type_); }
  void expect_same(const at::Tensor& got, const at::Tensor& expected) const {
    ASSERT_EQ(got.scalar_type(), type_);
    EXPECT_TRUE(got.to(at::kFloat).equal(expected.to(at::kFloat))) << got.to(at::kFloat);
  }

 private:
  at::ScalarType type_;
};

constexpr at::ScalarType kDtypes[] = {at::kShort,  at::kUInt16,        at::kUInt32,
                                      at::kUInt64, at::kFloat8_e4m3fn, at::kBFloat16};

TEST_F(CollectivesMultirankTest, MovesEveryDtype) {
  for (const at::ScalarType dtype : kDtypes) {
    SCOPED_TRACE(c10::toString(dtype));
    const OfDtype of(dtype);
    const int last = get_world_size() - 1;
    const at::Tensor sent = of.value(get_rank());
    broadcast(sent, last);
    of.expect_same(sent, of.value(last));
    const Tensors all = of_all_ranks([&](int) { return of.empty(); });
    const Work work = all_gather(all, of.value(get_rank()), {.async_op = true});
    work.wait();
    of.expect_same(all.back(), of.value(last));
    for (const at::Tensor& one : work.result()) EXPECT_EQ(one.scalar_type(), dtype);
    const at::Tensor row = of.empty(3 * get_world_size());
    all_gather_into_tensor(row, of.value(get_rank()));
    of.expect_same(row.slice(0, 3 * last), of.value(last));
    const Tensors gathered = of_all_ranks([&](int) { return of.empty(); });
    gather(of.value(get_rank()), is_last() ? gathered : Tensors(), last);
    if (is_last()) of.expect_same(gathered.front(), of.value(0));
    const at::Tensor own = of.empty();
    const Tensors parts = of_all_ranks([&](int rank) { return of.value(rank + 1); });
    scatter(own, is_last() ? parts : Tensors(), last);
    of.expect_same(own, of.value(get_rank() + 1));
  }
}

TEST_F(CollectivesMultirankTest, ExchangesEveryDtype) {
  for (const at::ScalarType dtype : kDtypes) {
    SCOPED_TRACE(c10::toString(dtype));
    const OfDtype of(dtype);
    const auto between = [&](int from, int to) { return of.value(10 * from + to); };
    const Tensors got = of_all_ranks([&](int) { return of.empty(); });
    all_to_all(got, of_all_ranks([&](int to) { return between(get_rank(), to); }));
    of.expect_same(got.back(), between(get_world_size() - 1, get_rank()));
    const at::Tensor one = of.empty(get_world_size());
    all_to_all_single(one, of.value(get_rank(), get_world_size()));
    of.expect_same(one, of.value(get_rank(), get_world_size()));
    if (get_world_size() == 1) continue;
    const at::Tensor received = of.empty();
    const Work sent = isend(of.value(get_rank()), next());
    recv(received, previous());
    sent.wait();
    of.expect_same(received, of.value(previous()));
  }
}

TEST_F(CollectivesMultirankTest, GlooRejectsReductionsOfUnsupportedDtypes) {
  EXPECT_THAT(error_of([] { all_reduce(at::ones({2}, at::kShort)); }),
              HasSubstr("tensor has dtype Short, which gloo does not reduce; expected double, "));
}

TEST_F(CollectivesMultirankTest, RejectsCompressedSparseTensors) {
  const at::Tensor compressed = at::ones({2, 2}).to_sparse_csr();
  EXPECT_THAT(error_of([&] { all_reduce(compressed); }),
              HasSubstr("tensor is SparseCsr; expected a dense tensor (to_dense()) or a sparse one "
                        "in COO format (to_sparse())"));
}

TEST_F(CollectivesMultirankTest, BackwardRejectsAnOverwrittenSavedTensor) {
  const at::Tensor weight = at::ones({2}).set_requires_grad(true);
  const auto backward_after = [&](const std::function<void(const at::Tensor&)>& collective) {
    const at::Tensor hidden = weight * 2;
    const at::Tensor loss = (hidden * hidden).sum();
    collective(hidden.detach());
    return MultirankTest::error_of([&] { loss.backward(); });
  };
  EXPECT_THAT(backward_after([](const at::Tensor& hidden) { all_reduce(hidden); }),
              HasSubstr("modified by an inplace operation"));
  // The root's tensor does not change.
  const auto broadcast_of = [](const at::Tensor& hidden) {
    broadcast(get_rank() == 0 ? hidden : hidden.clone(), 0);
  };
  EXPECT_EQ(backward_after(broadcast_of), "no error");
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

TEST_F(CollectivesMultirankTest, ReceivesWhatThePeerSends) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs a peer";
  const at::Tensor got = at::zeros({2, 3});
  const Work sent = isend(input(), next());
  EXPECT_EQ(recv(got, previous()), previous());
  sent.wait();
  EXPECT_TRUE(got.equal(input_of(previous()))) << got;
}

TEST_F(CollectivesMultirankTest, ReceiveFromAnyReportsTheSender) {
  if (get_rank() != 0) return send(input(), 0);
  std::vector<bool> seen(static_cast<std::size_t>(get_world_size()));
  for (int i = 1; i < get_world_size(); ++i) {
    const at::Tensor got = at::zeros({2, 3});
    const int from = recv(got);
    ASSERT_GT(from, 0);
    EXPECT_TRUE(got.equal(input_of(from))) << got;
    EXPECT_FALSE(seen[static_cast<std::size_t>(from)]);
    seen[static_cast<std::size_t>(from)] = true;
  }
}

TEST_F(CollectivesMultirankTest, TagsKeepMessagesApart) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs a peer";
  const at::Tensor first = at::zeros({1}), second = at::zeros({1});
  const Work one = isend(at::full({1}, 1.0), next(), {.tag = 1});
  const Work two = isend(at::full({1}, 2.0), next(), {.tag = 2});
  recv(second, previous(), {.tag = 2});
  recv(first, previous(), {.tag = 1});
  one.wait();
  two.wait();
  EXPECT_EQ(first.item<double>(), 1);
  EXPECT_EQ(second.item<double>(), 2);
}

TEST_F(CollectivesMultirankTest, BatchStartsAllOperations) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs a peer";
  const at::Tensor got = at::zeros({2, 3});
  const auto begun =
      batch_isend_irecv({{.kind = P2POp::Kind::kReceive, .tensor = got, .peer = previous()},
                         {.kind = P2POp::Kind::kSend, .tensor = input(), .peer = next()}});
  EXPECT_EQ(begun.size(), 2u);
  for (const Work& work : begun) work.wait();
  EXPECT_TRUE(got.equal(input_of(previous()))) << got;
}

// The callback holds the last copies and runs on a thread of the backend.  The last rank starts its
// collective only after the other ranks have dropped their copies.  With DETAIL it cannot, because
// the other ranks' calls block until it starts.
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

// Too large for socket buffers: if the work was dropped, the rest would never be sent.
TEST_F(CollectivesMultirankTest, MessagesArriveIfTheCallerDropsTheWork) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs a peer";
  const auto large = [](int rank) { return at::full({4 << 20}, 1.0 * rank); };
  isend(large(get_rank()), next());
  isend(input(), next());
  const at::Tensor first = at::zeros({4 << 20}), second = at::zeros({2, 3});
  irecv(first, previous());
  recv(second, previous());
  barrier();
  EXPECT_TRUE(first.equal(large(previous())));
  EXPECT_TRUE(second.equal(input_of(previous()))) << second;
}

TEST_F(CollectivesMultirankTest, RejectedBatchStartsNothing) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs a peer";
  const at::Tensor got = at::zeros({2, 3});
  const auto batch_with = [&](const P2POp& second) {
    return error_of([&] { batch_isend_irecv({{.tensor = input() + 1, .peer = next()}, second}); });
  };
  EXPECT_THAT(batch_with({.tensor = at::Tensor(), .peer = next()}),
              HasSubstr("is an undefined tensor"));
  EXPECT_THAT(batch_with({.tensor = got, .peer = get_rank()}), HasSubstr("is this rank itself"));
  EXPECT_THAT(batch_with({.tensor = got, .peer = next(), .options = {.tag = -1}}),
              HasSubstr("the tag is -1; expected 0 or more"));
  const Work sent = isend(input(), next());
  recv(got, previous());
  sent.wait();
  EXPECT_TRUE(got.equal(input_of(previous()))) << got;
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

TEST_F(CollectivesMultirankTest, CollectivesFailAfterAnAbort) {
  const Group group = new_group();
  barrier({.group = group});
  abort_process_group(group);
  try {
    all_reduce(input(), ReduceOp::SUM, {.group = group});
    ADD_FAILURE() << "no error";
  } catch (const c10::DistBackendError& error) {
    EXPECT_THAT(error.what_without_backtrace(), HasSubstr("the group has been aborted"));
  }
  barrier();
}

TEST_F(CollectivesMultirankTest, RejectsInvalidArgumentsWithBothValues) {
  const std::string here = " on rank " + std::to_string(get_rank()) + ": ";
  const int ranks = get_world_size();
  const at::Tensor x = input();
  Tensors more = empties();
  more.push_back(x);
  EXPECT_EQ(error_of([&] { all_gather(more, x); }),
            "all_gather" + here + "tensors has " + std::to_string(ranks + 1) +
                " tensors; expected " + std::to_string(ranks) +
                ", one for each rank of the default group");
  EXPECT_THAT(error_of([&] { all_reduce(at::Tensor()); }),
              HasSubstr(here + "tensor is an undefined tensor"));
  EXPECT_THAT(error_of([&] { all_gather_into_tensor(at::zeros({1}), x); }),
              HasSubstr(here + "output has 1 elements ([1]); expected as many as input ([2, 3])"));
  EXPECT_THAT(error_of([&] { broadcast(x, ranks); }),
              HasSubstr("broadcast" + here + "rank " + std::to_string(ranks) + " is not in"));
  EXPECT_THAT(error_of([&] { reduce(x, GroupRank(-1)); }),
              HasSubstr("group rank -1 is not one of"));
  EXPECT_THAT(error_of([&] { gather(x, {}, get_rank()); }), HasSubstr("tensors has 0 tensors"));
  EXPECT_THAT(
      error_of([&] { all_to_all_single(x, x, {1}, {}); }),
      HasSubstr(ranks == 1 ? "the split sizes of output add up to 1; expected 2"
                           : "output has 1 split sizes; expected " + std::to_string(ranks)));
  EXPECT_THAT(error_of([&] { all_to_all_single(at::zeros({}), x); }), HasSubstr("is a scalar"));
  EXPECT_THAT(error_of([&] {
                all_to_all_single(
                    x, x, std::vector<std::int64_t>(static_cast<std::size_t>(ranks), -1), {});
              }),
              HasSubstr("the split sizes of output have -1; expected 0 or more"));
  if (ranks == 3) {  // With an overflow the sum would be 2.
    constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
    EXPECT_THAT(error_of([&] {
                  all_to_all_single(x, x, {kMost, kMost, 4}, {});
                }),
                HasSubstr("the split sizes of output add up to 2^63 or more; expected 2"));
  }
  EXPECT_THAT(
      error_of([&] { all_to_all_single(at::zeros({ranks}), at::zeros({2 * ranks})); }),
      HasSubstr("the part for this rank itself has 1 elements in output ([" +
                std::to_string(ranks) + "]) and 2 in input ([" + std::to_string(2 * ranks) + "])"));
  EXPECT_THAT(error_of([&] {
                all_to_all(of_all_ranks([](int) { return at::zeros({3}); }),
                           of_all_ranks([](int) { return at::zeros({2}); }));
              }),
              HasSubstr("has 3 elements ([3]); expected as many as inputs["));
  EXPECT_THAT(error_of([&] {
                all_gather(of_all_ranks([](int) { return at::zeros({3, 2}); }), x);
              }),
              HasSubstr("tensors[0] has sizes [3, 2]; expected [2, 3], the sizes of tensor"));
  EXPECT_THAT(error_of([&] { all_reduce(x, ReduceOp::BAND); }), HasSubstr("no BAND of Float"));
  EXPECT_THAT(error_of([&] { all_reduce(x.to(at::kInt), ReduceOp::AVG); }),
              HasSubstr("no AVG of Int"));
  ReduceOp scaled_sum;
  scaled_sum.op_ = ReduceOp::PREMUL_SUM;
  EXPECT_THAT(error_of([&] { all_reduce(x, scaled_sum); }), HasSubstr("no PREMUL_SUM"));
  EXPECT_THAT(error_of([&] { all_reduce(x.to_sparse(), ReduceOp::MAX); }),
              HasSubstr("no MAX of sparse tensors"));
  EXPECT_THAT(error_of([&] { reduce(x.to(at::kShort), 0); }),
              HasSubstr("tensor has dtype Short, which gloo does not reduce"));
  EXPECT_THAT(error_of([&] { all_reduce_coalesced({}); }), HasSubstr("tensors is empty"));
  EXPECT_THAT(error_of([&] { send(x, get_rank()); }), HasSubstr("the peer is this rank itself"));
  EXPECT_THAT(error_of([] { batch_isend_irecv({}); }),
              HasSubstr("the list of operations is empty"));
  const Group alone = new_subgroups(1).own.value();
  EXPECT_THAT(error_of([&] { recv(x, std::nullopt, {.group = alone}); }),
              AllOf(HasSubstr(here + "group "), HasSubstr(" has no other rank to receive from")));
  EXPECT_THAT(error_of([] { monitored_barrier({.timeout = milliseconds(-1)}); }),
              HasSubstr("the timeout is -1 ms"));
  all_reduce(x);  // The ranks are still in step.
  EXPECT_TRUE(x.equal(sum())) << x;
}

// The last rank does not call it.
TEST_F(CollectivesMultirankTest, MonitoredBarrierNamesMissingRanks) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs a peer";
  const Group group = new_group();
  barrier({.group = group});
  if (!is_last()) {
    try {
      monitored_barrier({.group = group, .timeout = milliseconds(500), .wait_all_ranks = true});
      ADD_FAILURE() << "passed without the last rank";
    } catch (const c10::DistBackendError& error) {
      const std::string text = error.what_without_backtrace();
      EXPECT_THAT(text, HasSubstr("monitored_barrier on rank " + std::to_string(get_rank())));
      if (get_rank() == 0) {
        const std::string last = std::to_string(get_world_size() - 1);
        EXPECT_THAT(text, ContainsRegex("Ranks ([0-9]+, )*" + last + " failed"));
      }
    }
  }
  barrier();
}

// The other ranks wait for rank 0 with the group's timeout, not with the call's.
TEST_F(CollectivesMultirankTest, MonitoredBarrierWithoutRank0UsesTheGroupTimeout) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs a peer";
  const Group group = new_group(std::nullopt, {.timeout = std::chrono::seconds(2)});
  barrier({.group = group});
  if (get_rank() != 0) {
    EXPECT_THROW(monitored_barrier({.group = group, .timeout = std::chrono::hours(1)}),
                 c10::DistBackendError);
  }
  barrier();
}

// The last rank never calls all_reduce.
TEST_F(CollectivesMultirankTest, TimeoutErrorNamesTheFunction) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs a peer";
  const Group group = new_group();
  barrier({.group = group});
  set_timeout(milliseconds(300), group);
  if (!is_last()) {
    try {
      all_reduce(input(), ReduceOp::SUM, {.group = group});
      ADD_FAILURE() << "passed without the last rank";
    } catch (const c10::DistBackendError& error) {
      EXPECT_THAT(
          error.what_without_backtrace(),
          AllOf(HasSubstr("all_reduce on rank " + std::to_string(get_rank()) + " in group "),
                AnyOf(HasSubstr("; rank " + std::to_string(get_world_size() - 1) +
                                " did not come; see monitored_barrier() and `distrun "
                                "store status`"),
                      HasSubstr("Ranks " + std::to_string(get_world_size() - 1)),  // DETAIL
                      ContainsRegex(lost_peer()))));
    }
  }
  barrier();
}

TEST_F(CollectivesMultirankTest, WaitOfZeroDoesNotWait) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs a peer";
  const Group group = new_group(std::nullopt, {.timeout = std::chrono::seconds(2)});
  barrier({.group = group});
  if (!is_last()) {
    EXPECT_THAT(MultirankTest::error_of<c10::DistBackendError>([&] {
                  all_reduce(input(), ReduceOp::SUM, {.group = group, .async_op = true})
                      .wait(milliseconds(0));
                }),
                HasSubstr("all_reduce on rank " + std::to_string(get_rank()) + " in group "));
  }
  barrier();
}

TEST_F(CollectivesMultirankTest, ReceiveUsesTheGroupTimeout) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs a peer";
  const Group group = new_group(std::nullopt, {.timeout = std::chrono::hours(1)});
  barrier({.group = group});
  set_timeout(milliseconds(300), group);
  if (get_rank() == 0) {
    EXPECT_THAT(MultirankTest::error_of<c10::DistBackendError>(
                    [&] { recv(input(), next(), {.group = group}); }),
                AllOf(HasSubstr("recv on rank 0 in group 1 of ranks 0"),
                      HasSubstr("; rank 1 did not come; see monitored_barrier() and ")));
  }
  barrier();
}

// The first rank that times out closes the connection, and the other rank may report that.
TEST_F(CollectivesMultirankTest, TwoSendsWithoutAReceiveFailAndNameThePeer) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs a peer";
  const Group group = new_group();
  barrier({.group = group});
  set_timeout(milliseconds(300), group);
  if (get_rank() < 2) {
    const int peer = 1 - get_rank();
    const std::string text = MultirankTest::error_of<c10::DistBackendError>(
        [&] { send(input(), peer, {.group = group}); });
    EXPECT_THAT(text, HasSubstr("send on rank " + std::to_string(get_rank()) + " in group "));
    const std::string name = "rank " + std::to_string(peer);
    EXPECT_THAT(text, AnyOf(HasSubstr("; " + name + " waits in send; see monitored_barrier()"),
                            HasSubstr("; " + name + " did not come"),  // Comes much later.
                            HasSubstr("the connection to " + name + " was lost: ")));
  }
  barrier();
}

// The last rank does not call all_reduce.  With TORCH_DISTRIBUTED_DEBUG=DETAIL the check before the
// collective waits for it.
TEST_F(CollectivesMultirankTest, AbortEndsAWaitInAnotherThread) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs a peer";
  const Group group = new_group(std::nullopt, {.timeout = std::chrono::hours(1)});
  if (!is_last()) {
    std::promise<void> begun;
    std::thread aborts([&] {
      begun.get_future().wait_for(std::chrono::seconds(30));
      abort_process_group(group);
    });
    const bool begins_at_once = c10d::debug_level() != c10d::DebugLevel::Detail;
    if (!begins_at_once) begun.set_value();
    try {
      const Work work = all_reduce(input(), ReduceOp::SUM, {.group = group, .async_op = true});
      if (begins_at_once) begun.set_value();
      work.wait();
      ADD_FAILURE() << "passed without the last rank";
    } catch (const c10::DistBackendError& error) {
      // Another rank may abort first and close its connections.
      EXPECT_THAT(error.what_without_backtrace(),
                  AnyOf(HasSubstr("the group has been aborted"), ContainsRegex(lost_peer())));
    }
    aborts.join();
  }
  barrier();
}

}  // namespace
}  // namespace distrun
