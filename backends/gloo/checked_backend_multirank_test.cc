// Calls on which ranks disagree, with TORCH_DISTRIBUTED_DEBUG=DETAIL:
//
//     distrun launch --nproc-per-node 3 build/tests/backends_multirank_test
//         --gtest_filter='CheckedBackendMultirankTest.*'
//
// Every rank runs every test in the same order.
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <torch/csrc/distributed/c10d/debug.h>

#include "backends/group/libtorch_versions.h"
#include "backends/test/multirank_test.h"
#include "distrun/point_to_point.h"

namespace distrun {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class CheckedBackendMultirankTest : public MultirankTest {
 protected:
  void SetUp() override {
    c10d::setDebugLevel(c10d::DebugLevel::Detail);
    MultirankTest::SetUp();
    if (get_world_size() == 1) GTEST_SKIP() << "needs a peer";
  }
  void TearDown() override {
    MultirankTest::TearDown();
    c10d::setDebugLevel(before_);
  }

  static bool is_first() { return get_rank() == 0; }

  // All ranks except the first: "rank 1", "ranks 1, 2".
  static std::string others() {
    const int count = get_world_size() - 1;
    return count == 1 ? "rank 1" : count == 2 ? "ranks 1, 2" : "ranks 1-" + std::to_string(count);
  }

  // Every rank gets the same error, and the group stays usable.
  template <class Act>
  static void expect_disagreement(const std::string& what, const Act& act) {
    EXPECT_THAT(error_of<c10::DistBackendError>(act),
                AllOf(HasSubstr(" on rank " + std::to_string(get_rank()) + " of "),
                      HasSubstr("ranks disagree: " + what)));
    const at::Tensor sum = at::ones({1});
    all_reduce(sum);
    EXPECT_EQ(sum.item<double>(), get_world_size());
  }

 private:
  const c10d::DebugLevel before_ = c10d::debug_level();
};

TEST_F(CheckedBackendMultirankTest, ComparesReduceOps) {
  expect_disagreement("the reduce op is SUM on rank 0 and MAX on " + others(),
                      [] { all_reduce(input(), is_first() ? ReduceOp::SUM : ReduceOp::MAX); });
}

TEST_F(CheckedBackendMultirankTest, NamesTheCallThatDiffers) {
  EXPECT_THAT(error_of<c10::DistBackendError>(
                  [] { all_reduce(input(), is_first() ? ReduceOp::SUM : ReduceOp::MAX); }),
              HasSubstr("ranks disagree: the reduce op is SUM on rank 0 and MAX on " + others() +
                        " (call 1 of this group on this rank)"));
}

TEST_F(CheckedBackendMultirankTest, ComparesRoots) {
  expect_disagreement("the root is rank 1 on rank 0 and rank 0 on " + others(),
                      [] { broadcast(input(), is_first() ? 1 : 0); });
}

TEST_F(CheckedBackendMultirankTest, ComparesDtypesAndSizes) {
  expect_disagreement("the dtype is Float on rank 0 and Int on " + others(),
                      [] { all_reduce(at::ones({2}, is_first() ? at::kFloat : at::kInt)); });
  expect_disagreement("the size is [2] on rank 0 and [3] on " + others(),
                      [] { all_reduce(at::ones({is_first() ? 2 : 3})); });
  // Gloo moves both as bytes.
  expect_disagreement("the dtype is Short on rank 0 and UInt16 on " + others(),
                      [] { broadcast(at::ones({2}, is_first() ? at::kShort : at::kUInt16), 0); });
}

TEST_F(CheckedBackendMultirankTest, TreatsOldAndNewNamesAsOneCollective) {
  const at::Tensor all = at::zeros({2 * get_world_size(), 3});
  is_first() ? all_gather_single(all, input()) : all_gather_into_tensor(all, input());
  EXPECT_TRUE(all.equal(at::cat(of_all_ranks(input_of)))) << all;
  const at::Tensor part = at::zeros({2, 3});
  is_first() ? reduce_scatter_single(part, all) : reduce_scatter_tensor(part, all);
  EXPECT_TRUE(part.equal(input() * get_world_size())) << part;
  expect_disagreement("the root is rank 1 on rank 0 and rank 0 on " + others(), [&] {
    gather_single(input(), is_first() ? at::Tensor() : all, is_first() ? 1 : 0);
  });
#if DISTRUN_LIBTORCH_SINCE(2, 14)
  const auto backend = default_group().getBackend(at::kCPU);
  at::Tensor output = all.clone(), own = input();
  (is_first() ? backend->all_gather_single(output, own) : backend->_allgather_base(output, own))
      ->wait();
  EXPECT_TRUE(output.equal(all)) << output;
  EXPECT_THAT(
      error_of([&] { backend->gather_single(output, own, {.rootRank = is_first() ? 1 : 0}); }),
      HasSubstr("ranks disagree: the root is rank 1 on rank 0 and rank 0 on " + others()));
#endif
}

TEST_F(CheckedBackendMultirankTest, ComparesNamesOfCollectives) {
  expect_disagreement("the collective is barrier on rank 0 and all_reduce on " + others(), [] {
    if (is_first()) return static_cast<void>(barrier());
    all_reduce(input());
  });
}

TEST_F(CheckedBackendMultirankTest, ComparesPartsOfAllToAll) {
  const auto sizes = static_cast<std::size_t>(get_world_size());
  expect_disagreement("rank 0 sends 1 numbers to rank 1, which expects 2", [&] {
    std::vector<std::int64_t> sent(sizes, 1), expected(sizes, 1);
    if (get_rank() == 1) expected[0] = 2;
    const std::int64_t rows = get_world_size() + (get_rank() == 1 ? 1 : 0);
    all_to_all_single(at::zeros({rows}), at::ones({get_world_size()}), expected, sent);
  });
}

TEST_F(CheckedBackendMultirankTest, ComparesSendsWithReceives) {
  if (get_rank() == 0) {
    expect_disagreement("this rank sends 3 elements of Int, and rank 1 expects 3 elements of Float",
                        [] { send(at::ones({3}, at::kInt), 1); });
    expect_disagreement(
        "this rank sends 3 elements of Float, and rank 1 expects 1 element of Float",
        [] { send(at::ones({3}), 1); });
  } else if (get_rank() == 1) {
    expect_disagreement("this rank expects 3 elements of Float, and rank 0 sends 3 elements of Int",
                        [] { recv(at::ones({3}), 0); });
    expect_disagreement(
        "this rank expects 1 element of Float, and rank 0 sends 3 elements of Float",
        [] { recv(at::ones({1})); });
  } else {
    all_reduce(at::ones({1}));
    all_reduce(at::ones({1}));
  }
}

TEST_F(CheckedBackendMultirankTest, NamesTheMissingRank) {
  const Group group = new_group();
  barrier({.group = group});
  set_timeout(std::chrono::milliseconds(500), group);
  const int last = get_world_size() - 1;
  if (get_rank() != last) {
    const std::string text = error_of<c10::DistBackendError>(
        [&] { all_reduce(input(), ReduceOp::SUM, {.group = group}); });
    EXPECT_THAT(text, HasSubstr(is_first() ? "Ranks " + std::to_string(last) : " rank 0"));
  }
  barrier();
}

// Nothing blocks before wait(), so two ranks may both receive first.
TEST_F(CheckedBackendMultirankTest, KeepsTheOrderOfSendsAndReceives) {
  const int peer = get_rank() ^ 1;
  if (peer >= get_world_size()) return;
  const at::Tensor first = at::zeros({1}), second = at::zeros({1});
  const Work one = irecv(first, peer), two = irecv(second, peer);
  send(at::full({1}, 1.0), peer);
  send(at::full({1}, 2.0), peer);
  one.wait();
  two.wait();
  EXPECT_EQ(first.item<double>(), 1);
  EXPECT_EQ(second.item<double>(), 2);
}

}  // namespace
}  // namespace distrun
