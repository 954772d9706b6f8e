// Errors of "fake", and all_to_all with parts of different sizes.
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sparse_coo_tensor.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "backends/fake/test/fake_world.h"
#include "distrun/fake.h"
#include "distrun/fake_options.h"
#include "distrun/point_to_point.h"

namespace distrun {
namespace {

using ::testing::HasSubstr;

class FakeAllToAllTest : public FakeWorldTest {
 protected:
  void SetUp() override { enter(1, 3); }
};

TEST_F(FakeAllToAllTest, CopiesEachPartToThePartOfTheSameRank) {
  const at::Tensor input = at::arange(6, at::kFloat), output = at::full({6}, -1.0F);
  all_to_all_single(output, input, {3, 2, 1}, {1, 2, 3});
  // The part for rank 0 three times, this rank's part, and the first element of the last part.
  EXPECT_TRUE(output.equal(at::tensor({0.F, 0.F, 0.F, 1.F, 2.F, 3.F}))) << output;
}

TEST_F(FakeAllToAllTest, OneSideMayHaveEqualSplits) {
  const at::Tensor input = at::arange(6, at::kFloat), output = at::full({5}, -1.0F);
  all_to_all_single(output, input, {0, 2, 3}, {});
  EXPECT_TRUE(output.equal(at::tensor({2.F, 3.F, 4.F, 5.F, 4.F}))) << output;
}

TEST_F(FakeAllToAllTest, ReceivesZerosFromRanksThatGetNothing) {
  const at::Tensor output = at::full({2}, -1.0F);
  all_to_all_single(output, at::ones({2}), {1, 1, 0}, {0, 1, 1});
  EXPECT_TRUE(output.equal(at::tensor({0.F, 1.F}))) << output;
}

TEST_F(FakeAllToAllTest, AcceptsListsOfDifferentSizes) {
  const Tensors inputs = {at::ones({1}), at::full({2, 2}, 2.0F), at::full({3}, 3.0F)};
  const Tensors outputs = {at::zeros({2}), at::zeros({2, 2}), at::zeros({1})};
  all_to_all(outputs, inputs);
  EXPECT_TRUE(outputs[0].equal(at::ones({2})));
  EXPECT_TRUE(outputs[1].equal(inputs[1]));
  EXPECT_TRUE(outputs[2].equal(at::full({1}, 3.0F)));
}

TEST_F(FakeAllToAllTest, RejectsSplitsThatDoNotFit) {
  const at::Tensor input = at::arange(6, at::kFloat), output = at::full({6}, -1.0F);
  EXPECT_THAT(error_of<c10::ValueError>([&] {
                all_to_all_single(output, input, {1, 1, 1});
              }),
              HasSubstr("the split sizes of output add up to 3; expected 6"));
  EXPECT_THAT(error_of<c10::ValueError>([&] { all_to_all_single(output, input, {6}); }),
              HasSubstr("output has 1 split sizes; expected 3"));
  EXPECT_TRUE(output.equal(at::full({6}, -1.0F)));
}

// LibTorch's group does not check them.
TEST_F(FakeAllToAllTest, BackendRejectsSplitsThatDoNotFit) {
  at::Tensor input = at::arange(6, at::kFloat), output = at::full({6}, -1.0F);
  const auto error = [&](std::vector<std::int64_t> to, std::vector<std::int64_t> from) {
    return error_of([&] { backend().alltoall_base(output, input, to, from); });
  };
  EXPECT_EQ(error({1, 1, 1}, {2, 2, 2}),
            "all_to_all_single: the split sizes of the output add up to 3; expected 6, its first "
            "dimension");
  EXPECT_THAT(error({2, 2, 2}, {6}), HasSubstr("there are 1 split sizes; expected 3"));
  EXPECT_THAT(error({7, -1, 0}, {}), HasSubstr("non-negative"));
  output = at::zeros({5});
  EXPECT_EQ(error({}, {}),
            "all_to_all_single: the first dimension of the output is 5; expected a multiple of 3 "
            "ranks, or explicit split sizes");
  output = at::zeros({});
  EXPECT_EQ(error({}, {}),
            "all_to_all_single: the output is a scalar; expected a tensor with at least one "
            "dimension");
}

TEST_F(FakeAllToAllTest, CountsReducedSparseTensors) {
  const at::Tensor x =
      at::sparse_coo_tensor(at::tensor({0, 2}, at::kLong).view({1, 2}), at::ones({2, 4}), {3, 4});
  all_reduce(x);
  EXPECT_EQ(wire_traffic()[0].payload, 2 * 8 + 8 * 4);
}

class FakeErrorsTest : public FakeWorldTest {};

TEST_F(FakeErrorsTest, RejectsInvalidArguments) {
  enter(0, 4);
  EXPECT_THAT(error_of<c10::ValueError>([] { all_gather({row(0)}, row(0)); }),
              HasSubstr("all_gather on rank 0: tensors has 1 tensor; expected 4"));
  EXPECT_THAT(error_of<c10::ValueError>([] { reduce_scatter_tensor(row(0), row(0)); }),
              HasSubstr("expected as many as output"));
  EXPECT_THAT(error_of<c10::ValueError>([] { broadcast(row(0), 4); }), HasSubstr("rank 4"));
  EXPECT_THAT(error_of<c10::ValueError>([] { send(row(0), 0); }), HasSubstr("this rank itself"));
  EXPECT_TRUE(wire_traffic().empty());
}

TEST_F(FakeErrorsTest, BackendRejectsInvalidArguments) {
  enter(0, 4);
  auto& group = backend();
  Tensors one = {row(0)};
  std::vector<Tensors> lists = {one};
  at::Tensor x = row(0), y = row(0);
  EXPECT_EQ(error_of([&] { group.allgather(lists, one); }),
            "all_gather: there are 1 outputs; expected 4");
  EXPECT_EQ(error_of([&] { group.gather(lists, one, {.rootRank = 1}); }),
            "gather: there are 1 lists of outputs; expected 0");
  EXPECT_EQ(error_of([&] { group.scatter(one, lists, {.rootRank = 0}); }),
            "scatter: there are 1 inputs; expected 4");
  EXPECT_EQ(error_of([&] { group.scatter(one, lists, {.rootRank = 1}); }),
            "scatter: there are 1 lists of inputs; expected 0");
  std::vector<Tensors> four_lists(4);
  EXPECT_EQ(error_of([&] { group.allgather_coalesced(four_lists, one); }),
            "all_gather_coalesced: there are 0 outputs in a list; expected 1");
  EXPECT_EQ(error_of([&] { group.reduce_scatter(one, lists); }),
            "reduce_scatter: there are 1 inputs; expected 4");
  EXPECT_EQ(error_of([&] { group._allgather_base(x, y); }),
            "all_gather_into_tensor: the larger tensor has sizes [2, 3]; expected 4 times the "
            "elements of [2, 3]");
  at::Tensor transposed = at::zeros({6, 4}).t();
  EXPECT_EQ(error_of([&] { group._allgather_base(transposed, y); }),
            "all_gather_into_tensor: the output (sizes [4, 6], strides [1, 4]) is not contiguous; "
            "expected one that is");
  EXPECT_THAT(error_of([&] { group._reduce_scatter_base(x, y); }),
              HasSubstr("expected 4 times the elements of"));
  EXPECT_THAT(error_of([&] { group.alltoall(one, one); }), HasSubstr("expected 4"));
  EXPECT_THAT(error_of([&] { group.broadcast(one, {.rootRank = 4}); }),
              HasSubstr("the root is 4; expected 0 to 3"));
}

TEST_F(FakeErrorsTest, BackendRejectsMismatchedSizesAndDtypes) {
  enter(0, 2);
  auto& group = backend();
  Tensors small = {at::ones({3})}, large = {at::zeros({2, 3})}, ints = {at::zeros({3}, at::kInt)};
  std::vector<Tensors> uneven = {{at::zeros({3}), at::zeros({2, 3})}},
                       mixed = {{at::zeros({3}), at::zeros({3}, at::kInt)}},
                       by_rank = {{at::zeros({3})}, {at::zeros({3}, at::kInt)}};
  at::Tensor six_ints = at::zeros({6}, at::kInt), six = at::zeros({6});
  Tensors all_six_ints = {six_ints}, all_six = {six};
  std::vector<std::int64_t> even;

  const auto sizes = HasSubstr("tensors differ in size");
  EXPECT_THAT(error_of([&] { group.allgather(uneven, small); }), sizes);
  EXPECT_THAT(error_of([&] { group.gather(uneven, small, {.rootRank = 0}); }), sizes);
  EXPECT_THAT(error_of([&] { group.scatter(small, uneven, {.rootRank = 0}); }), sizes);
  EXPECT_THAT(error_of([&] { group.scatter(large, uneven, {.rootRank = 0}); }), sizes);
  EXPECT_THAT(error_of([&] { group.reduce_scatter(small, uneven); }), sizes);
  EXPECT_THAT(error_of([&] { group.reduce_scatter(large, uneven); }), sizes);

  const auto dtypes = HasSubstr("tensors differ in dtype");
  EXPECT_THAT(error_of([&] { group.allgather(mixed, small); }), dtypes);
  EXPECT_THAT(error_of([&] { group.allgather_coalesced(by_rank, small); }), dtypes);
  EXPECT_THAT(error_of([&] { group._allgather_base(six_ints, small[0]); }), dtypes);
  EXPECT_THAT(error_of([&] { group.allgather_into_tensor_coalesced(all_six_ints, small); }),
              dtypes);
  EXPECT_THAT(error_of([&] { group.gather(mixed, small, {.rootRank = 0}); }), dtypes);
  EXPECT_THAT(error_of([&] { group.scatter(small, mixed, {.rootRank = 0}); }), dtypes);
  EXPECT_THAT(error_of([&] { group.reduce_scatter(small, mixed); }), dtypes);
  EXPECT_THAT(error_of([&] { group._reduce_scatter_base(ints[0], six); }), dtypes);
  EXPECT_THAT(error_of([&] { group.reduce_scatter_tensor_coalesced(ints, all_six); }), dtypes);
  EXPECT_THAT(error_of([&] { group.alltoall_base(six, six_ints, even, even); }), dtypes);
  EXPECT_THAT(error_of([&] { group.alltoall(uneven[0], mixed[0]); }), dtypes);
  EXPECT_THAT(error_of([&] { group.alltoall(mixed[0], uneven[0]); }), dtypes);

  EXPECT_TRUE(uneven[0][0].equal(at::zeros({3})));  // Every error came before a write.
  EXPECT_TRUE(small[0].equal(at::ones({3})));
  EXPECT_TRUE(wire_traffic().empty());
}

TEST_F(FakeErrorsTest, BackendRejectsImpossiblePeers) {
  enter(0, 2);
  Tensors tensors = {row(0)};
  for (const int peer : {-1, 2}) {
    EXPECT_THAT(error_of([&] { backend().send(tensors, peer, 0); }),
                HasSubstr(c10::str("send: the destination is ", peer, "; expected 0 to 1")));
    EXPECT_THAT(error_of([&] { backend().recv(tensors, peer, 0); }),
                HasSubstr(c10::str("recv: the source is ", peer, "; expected 0 to 1")));
  }
  EXPECT_TRUE(wire_traffic().empty());
}

TEST_F(FakeErrorsTest, OptionMakesCollectivesFail) {
  const auto options = c10::make_intrusive<FakeOptions>();
  options->error_on_collective = true;
  enter(0, 2, options);
  const at::Tensor x = row(0);
  for (const auto& text : {error_of<c10::DistBackendError>([&] { all_reduce(x); }),
                           error_of<c10::DistBackendError>([&] { broadcast(x, 0); }),
                           error_of<c10::DistBackendError>([&] { all_reduce_coalesced({x}); }),
                           error_of<c10::DistBackendError>([&] { reduce(x, 0); }),
                           error_of<c10::DistBackendError>([&] {
                             all_gather({row(0), row(0)}, x);
                           }),
                           error_of<c10::DistBackendError>([&] {
                             all_gather_into_tensor(at::zeros({4, 3}), x);
                           }),
                           error_of<c10::DistBackendError>([&] {
                             all_gather_coalesced({{row(0), row(0)}}, {x});
                           }),
                           error_of<c10::DistBackendError>([&] {
                             gather(x, {row(0), row(0)});
                           }),
                           error_of<c10::DistBackendError>([&] {
                             scatter(x, {row(0), row(0)});
                           }),
                           error_of<c10::DistBackendError>([&] {
                             reduce_scatter(x, {row(0), row(0)});
                           }),
                           error_of<c10::DistBackendError>([&] {
                             reduce_scatter_tensor(x, at::zeros({4, 3}));
                           }),
                           error_of<c10::DistBackendError>([&] {
                             all_to_all({x, row(0)}, {row(0), row(0)});
                           }),
                           error_of<c10::DistBackendError>([&] { all_to_all_single(x, row(0)); }),
                           error_of<c10::DistBackendError>([&] { barrier(); }),
                           error_of<c10::DistBackendError>([&] { monitored_barrier(); })}) {
    EXPECT_THAT(text, HasSubstr(" fails: the group was created with "
                                "FakeOptions::error_on_collective"));
  }
  backend().startCoalescing();
  EXPECT_THAT(error_of([&] { backend().endCoalescing(); }), HasSubstr("error_on_collective"));
  send(x, 1);
  EXPECT_EQ(get_sequence_number(), 0u);
}

TEST_F(FakeErrorsTest, AbortedGroupRejectsOperations) {
  enter(0, 2);
  const at::Tensor x = row(0);
  abort_process_group();
  EXPECT_THAT(error_of<c10::DistBackendError>([&] { all_reduce(x); }),
              HasSubstr("the group has been aborted"));
  Tensors tensors = {x};
  const auto aborted = HasSubstr("the group has been aborted");
  EXPECT_THAT(error_of([&] { default_group().send(tensors, 1, 0); }), aborted);
  EXPECT_THAT(error_of([&] { default_group().recv(tensors, 1, 0); }), aborted);
  EXPECT_THAT(error_of([&] { default_group().recvAnysource(tensors, 0); }), aborted);
  EXPECT_THAT(error_of([&] { default_group().allreduce(tensors); }), aborted);
}

}  // namespace
}  // namespace distrun
