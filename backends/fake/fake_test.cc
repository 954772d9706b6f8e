// What the operations of "fake" write, in worlds of several sizes.
#include "distrun/fake.h"

#include <algorithm>

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include "backends/fake/test/fake_world.h"
#include "backends/group/libtorch_versions.h"
#include "distrun/point_to_point.h"

namespace distrun {
namespace {

// A tensor whose last dimension is not contiguous.
at::Tensor strided_like(const at::Tensor& tensor) {
  return at::full_like(tensor.t(), -1, at::MemoryFormat::Contiguous).t();
}

// World sizes 1, 2 and 1024. If possible, this rank is neither the first nor the last.
class FakeOperationsTest : public FakeWorldTest, public ::testing::WithParamInterface<int> {
 protected:
  FakeOperationsTest() : size_(GetParam()), rank_(std::min(5, size_ - 1)) {}
  void SetUp() override { enter(rank_, size_); }

  // row(0), row(100), …, one per rank.
  Tensors rows() const {
    Tensors all;
    for (int i = 0; i < size_; ++i) all.push_back(row(100 * i));
    return all;
  }
  // One output per rank.
  Tensors places() const {
    Tensors all;
    for (int i = 0; i < size_; ++i) all.push_back(at::full({2, 3}, -1.0F));
    return all;
  }
  at::Tensor own_row() const { return row(100 * rank_); }
  int other() const { return (rank_ + 1) % size_; }

  static void expect_equal(const at::Tensor& tensor, const at::Tensor& expected) {
    ASSERT_EQ(tensor.sizes(), expected.sizes());
    EXPECT_EQ(tensor.scalar_type(), expected.scalar_type());
    EXPECT_TRUE(tensor.equal(expected)) << tensor << "\nexpected\n" << expected;
  }
  static void expect_all_equal(const Tensors& tensors, const at::Tensor& expected) {
    for (const at::Tensor& one : tensors) ASSERT_TRUE(one.equal(expected)) << one;
  }

  const int size_, rank_;
};

INSTANTIATE_TEST_SUITE_P(WorldSizes, FakeOperationsTest, ::testing::Values(1, 2, 1024));

TEST_P(FakeOperationsTest, GroupHasTheGivenRankAndSize) {
  EXPECT_EQ(get_rank(), rank_);
  EXPECT_EQ(get_world_size(), size_);
  EXPECT_EQ(get_backend(), "fake");
}

TEST_P(FakeOperationsTest, ReductionsAndBroadcastsLeaveTensorsUnchanged) {
  const at::Tensor x = row(1), y = row(7);
  broadcast(x, rank_);
  broadcast(x, other());
  all_reduce(x);
  all_reduce(x, ReduceOp::AVG);
  reduce(x, rank_);
  reduce(x, other());
  all_reduce_coalesced({x, y}, ReduceOp::MAX);
  expect_equal(x, row(1));
  expect_equal(y, row(7));
}

TEST_P(FakeOperationsTest, AllGatherFillsEveryOutputWithThisRanksInput) {
  const Tensors outputs = places();
  all_gather(outputs, row(1));
  expect_all_equal(outputs, row(1));
}

TEST_P(FakeOperationsTest, AllGatherIntoTensorFillsEachPart) {
  const at::Tensor rows = at::full({2 * size_, 3}, -1.0F), stack = at::full({size_, 2, 3}, -1.0F);
  all_gather_into_tensor(rows, row(1));
  all_gather_into_tensor(stack, row(1));
  expect_equal(stack, row(1).expand({size_, 2, 3}));
  expect_equal(rows, stack.reshape({2 * size_, 3}));
}

TEST_P(FakeOperationsTest, AllGatherCoalescedKeepsItsInputsApart) {
  const Tensors first = places(), second = places();
  all_gather_coalesced({first, second}, {row(1), row(7)});
  expect_all_equal(first, row(1));
  expect_all_equal(second, row(7));
}

TEST_P(FakeOperationsTest, GatherFillsOnlyTheRootsList) {
  const Tensors outputs = places();
  gather(row(1), outputs, rank_);
  expect_all_equal(outputs, row(1));
  if (size_ > 1) gather(row(1), {}, other());
}

TEST_P(FakeOperationsTest, GatherSingleFillsEachPartAtTheRoot) {
  at::Tensor stack = at::full({size_, 2, 3}, -1.0F);
  gather_single(row(1), stack, rank_);
  expect_equal(stack, row(1).expand({size_, 2, 3}));
  if (size_ > 1) gather_single(row(1), {}, other());
#if DISTRUN_LIBTORCH_SINCE(2, 14)
  at::Tensor input = row(2);
  default_group().gather_single(stack, input, {.rootRank = rank_})->wait();
  expect_equal(stack, row(2).expand({size_, 2, 3}));
#endif
}

TEST_P(FakeOperationsTest, ScatterGivesTheRootItsOwnPart) {
  const at::Tensor x = at::full({2, 3}, -1.0F);
  scatter(x, rows(), rank_);
  expect_equal(x, own_row());
}

TEST_P(FakeOperationsTest, ScatterLeavesOtherRanksUnchanged) {
  if (size_ == 1) return;
  const at::Tensor x = at::full({2, 3}, -1.0F);
  scatter(x, {}, other());
  expect_equal(x, at::full({2, 3}, -1.0F));
}

TEST_P(FakeOperationsTest, ReduceScatterGivesThisRankItsPart) {
  const at::Tensor x = at::full({2, 3}, -1.0F), y = at::full({2, 3}, -1.0F);
  reduce_scatter(x, rows());
  expect_equal(x, own_row());
  reduce_scatter_tensor(y, at::stack(rows()));
  expect_equal(y, own_row());
}

TEST_P(FakeOperationsTest, AllToAllCopiesEachPart) {
  const Tensors outputs = places();
  all_to_all(outputs, rows());
  for (int i = 0; i < size_; ++i) {
    expect_equal(outputs[static_cast<std::size_t>(i)], row(100 * i));
  }
  const at::Tensor input = at::stack(rows()), output = at::full_like(input, -1);
  all_to_all_single(output, input);
  expect_equal(output, input);
}

TEST_P(FakeOperationsTest, SupportsLibTorchsCoalescedCollectives) {
  auto& group = backend();
  Tensors inputs = {row(1), row(7)};
  Tensors gathered = {at::full({2 * size_, 3}, -1.0F), at::full({2 * size_, 3}, -1.0F)};
  group.allgather_into_tensor_coalesced(gathered, inputs)->wait();
  for (int i = 0; i < size_; ++i) {
    expect_equal(gathered[0].narrow(0, 2 * i, 2), row(1));
    expect_equal(gathered[1].narrow(0, 2 * i, 2), row(7));
  }
  Tensors parts = {at::full({2, 3}, -1.0F)}, all = {at::stack(rows())};
  group.reduce_scatter_tensor_coalesced(parts, all)->wait();
  expect_equal(parts[0], own_row());
}

TEST_P(FakeOperationsTest, CompletesCollectivesBetweenStartAndEndOfCoalescing) {
  auto& group = default_group();
  group.startCoalescing(c10::DeviceType::CPU);
  const at::Tensor x = row(1);
  const Work work = all_reduce(x, ReduceOp::SUM, {.async_op = true});
  const auto end = group.endCoalescing(c10::DeviceType::CPU);
  end->wait();
  EXPECT_TRUE(end->isSuccess());
  EXPECT_TRUE(work.is_completed());
}

TEST_P(FakeOperationsTest, PointToPointReturnsAtOnce) {
  if (size_ == 1) return;
  const at::Tensor x = row(1);
  send(x, other());
  EXPECT_EQ(recv(x, other()), other());
  EXPECT_EQ(recv(x), other());
  isend(x, other()).wait();
  irecv(x, other(), {.tag = 3}).wait();
  const auto works =
      batch_isend_irecv({{.kind = P2POp::Kind::kSend, .tensor = x, .peer = other()},
                         {.kind = P2POp::Kind::kReceive, .tensor = x, .peer = other()}});
  for (const Work& work : works) EXPECT_TRUE(work.is_completed());
  expect_equal(x, row(1));
}

TEST_P(FakeOperationsTest, BarriersReturnAtOnce) {
  barrier();
  EXPECT_TRUE(barrier({.async_op = true}).is_completed());
  monitored_barrier({.timeout = std::chrono::minutes(5), .wait_all_ranks = true});
}

TEST_P(FakeOperationsTest, BytesComeFromEveryRank) {
  EXPECT_EQ(broadcast_bytes("abc", rank_), "abc");
  EXPECT_EQ(all_gather_bytes("abc"),
            std::vector<std::string>(static_cast<std::size_t>(size_), "abc"));
  EXPECT_EQ(gather_bytes("abc", rank_).size(), static_cast<std::size_t>(size_));
  EXPECT_EQ(scatter_bytes(std::vector<std::string>(static_cast<std::size_t>(size_), "abc"), rank_),
            "abc");
}

TEST_P(FakeOperationsTest, BytesOfAnotherRankAreEmpty) {
  if (size_ == 1) return;
  const UnwrittenMemoryIsSeen guard;
  EXPECT_EQ(scatter_bytes({}, other()), "");
  send_bytes("abc", other());
  std::string bytes = "old";
  EXPECT_EQ(recv_bytes(bytes, other()), other());
  EXPECT_EQ(bytes, "");
}

TEST_P(FakeOperationsTest, BroadcastOfBytesFromAnotherRankReturnsThisRanksBytes) {
  const UnwrittenMemoryIsSeen guard;
  EXPECT_EQ(broadcast_bytes("abc", other()), "abc");
  EXPECT_EQ(broadcast_bytes("", other()), "");
}

TEST_P(FakeOperationsTest, WorkIsCompletedAndItsFutureHasTheOutputs) {
  const Tensors outputs = places();
  const Work work = all_gather(outputs, row(1), {.async_op = true});
  EXPECT_TRUE(work.is_completed());
  work.wait(std::chrono::milliseconds(0));
  const auto future = work.get_future();
  ASSERT_TRUE(future->completed());
  const auto value = future->value().toTensorVector();
  ASSERT_EQ(value.size(), outputs.size());
  EXPECT_TRUE(value.back().is_same(outputs.back()));
  ASSERT_EQ(work.result().size(), outputs.size());
  EXPECT_TRUE(work.result().front().is_same(outputs.front()));
  EXPECT_TRUE(work.c10d_work()->isSuccess());
}

// As with Gloo, the value is the list of its tensors.
TEST_P(FakeOperationsTest, FutureOfAnInPlaceCollectiveHasItsTensor) {
  const at::Tensor x = row(1);
  const auto value = all_reduce(x, ReduceOp::SUM, {.async_op = true}).get_future()->value();
  ASSERT_EQ(value.toTensorVector().size(), 1u);
  EXPECT_TRUE(value.toTensorVector()[0].is_same(x));
  EXPECT_TRUE(barrier({.async_op = true}).get_future()->value().toTensorVector().empty());
}

TEST_P(FakeOperationsTest, WritesTensorsOfAnyStrides) {
  const at::Tensor output = strided_like(row(0)), input = strided_like(row(0));
  ASSERT_FALSE(output.is_contiguous());
  input.copy_(own_row());
  Tensors places;
  for (int i = 0; i < size_; ++i) places.push_back(strided_like(row(0)));
  all_gather(places, input);
  expect_all_equal(places, own_row());
  reduce_scatter(output, rows());
  expect_equal(output, own_row());
  output.fill_(-1);
  const Work work =
      reduce_scatter_tensor(output, at::stack(rows()).transpose(0, 1).contiguous().transpose(0, 1),
                            ReduceOp::SUM, {.async_op = true});
  work.wait();
  expect_equal(output, own_row());
  EXPECT_TRUE(work.get_future()->value().toTensorVector()[0].is_same(output));
  all_reduce(output);
  expect_equal(output, own_row());
}

TEST_P(FakeOperationsTest, OutputsMayBeViewsAndRequireAGradient) {
  const at::Tensor leaf = at::full({2, 3}, -1.0F).requires_grad_();
  const at::Tensor viewed = at::full({4, 3}, -1.0F).requires_grad_();
  reduce_scatter(leaf, rows());
  reduce_scatter(viewed.narrow(0, 2, 2), rows());
  all_reduce(leaf);
  expect_equal(leaf.detach(), own_row());
  expect_equal(viewed.detach().narrow(0, 2, 2), own_row());
  EXPECT_TRUE(leaf.is_leaf());
  EXPECT_TRUE(viewed.is_leaf());

  const at::Tensor gathered = at::full({size_, 2, 3}, -1.0F);
  all_gather_into_tensor(gathered, own_row().requires_grad_());
  EXPECT_FALSE(gathered.requires_grad());
}

TEST_P(FakeOperationsTest, AcceptsEveryDtype) {
  for (const at::ScalarType type : {at::kDouble, at::kHalf, at::kBFloat16, at::kByte, at::kChar,
                                    at::kShort, at::kInt, at::kLong, at::kBool, at::kComplexFloat,
                                    at::kComplexDouble, at::kUInt16, at::kFloat8_e4m3fn}) {
    SCOPED_TRACE(c10::toString(type));
    const at::Tensor input = at::ones({2, 2}).to(type);
    const at::Tensor output = at::zeros({2 * size_, 2}).to(type);
    all_gather_into_tensor(output, input);
    EXPECT_EQ(output.scalar_type(), type);
    EXPECT_TRUE(output.to(at::kComplexDouble).equal(at::ones({2 * size_, 2}, at::kComplexDouble)));
    const at::Tensor part = at::zeros({2, 2}).to(type);
    reduce_scatter_tensor(part, output);
    EXPECT_TRUE(part.to(at::kComplexDouble).equal(at::ones({2, 2}, at::kComplexDouble)));
  }
}

TEST_P(FakeOperationsTest, AcceptsEmptyTensors) {
  const at::Tensor none = at::zeros({0, 3});
  all_gather_into_tensor(at::zeros({0, 3}), none);
  reduce_scatter_tensor(at::zeros({0, 3}), none);
  all_to_all_single(at::zeros({0, 3}), none);
  all_reduce(none);
  EXPECT_EQ(wire_traffic().back().sent, 0);
}

TEST_P(FakeOperationsTest, CountsCollectives) {
  EXPECT_EQ(get_sequence_number(), 0u);
  barrier();
  const Work work = all_reduce(row(1), ReduceOp::SUM, {.async_op = true});
  EXPECT_EQ(get_sequence_number(), 2u);
  EXPECT_EQ(work.c10d_work()->getSequencenumber(), 2u);
}

}  // namespace
}  // namespace distrun
