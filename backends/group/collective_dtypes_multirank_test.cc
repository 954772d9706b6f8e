// Which dtypes the collectives move, and which they add.
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/complex.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gmock/gmock.h>

#include "backends/group/libtorch_versions.h"
#include "backends/group/test/collectives_fixture.h"
#include "distrun/point_to_point.h"

namespace distrun {
namespace {

using ::testing::HasSubstr;

class CollectiveDtypesMultirankTest : public CollectivesFixture {};

// LibTorch 2.14 renames functions of backends.  Its groups and programs call either name.
TEST_F(CollectiveDtypesMultirankTest, BackendMovesEveryDtypeByOldAndNewNames) {
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

TEST_F(CollectiveDtypesMultirankTest, AddsAndMovesComplexNumbers) {
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

TEST_F(CollectiveDtypesMultirankTest, AcceptsHalfAndBool) {
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

TEST_F(CollectiveDtypesMultirankTest, MovesEveryDtype) {
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

TEST_F(CollectiveDtypesMultirankTest, ExchangesEveryDtype) {
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

TEST_F(CollectiveDtypesMultirankTest, GlooRejectsReductionsOfUnsupportedDtypes) {
  if (backend() != "gloo") GTEST_SKIP() << "about gloo";
  EXPECT_THAT(error_of([] { all_reduce(at::ones({2}, at::kShort)); }),
              HasSubstr("tensor has dtype Short, which gloo does not reduce; expected double, "));
}

}  // namespace
}  // namespace distrun
