// Collectives, as every rank of a real run sees them:
//
//     distrun launch --nproc-per-node 3 build/tests/process_group_ranks_test
//
// Every rank runs every test, in the same order; the run fails if one rank does.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "backends/collectives.h"
#include "backends/process_group.h"

namespace distrun {
namespace {

class ProcessGroupRanksTest : public ::testing::Test {
 protected:
  // Short, so that a rank that fails does not keep the others for long.
  void SetUp() override { init_process_group({.timeout = std::chrono::seconds(30)}); }
  void TearDown() override {
    if (!is_initialized()) return;
    barrier();
    destroy_process_group();
  }

  // What rank `rank` puts in: every rank can compute what another has.
  static at::Tensor input_of(int rank) {
    return at::arange(6, at::kFloat).view({2, 3}) + 10 * rank;
  }
};

TEST_F(ProcessGroupRanksTest, RanksAreThoseOfTheEnvironment) {
  EXPECT_EQ(get_rank(), std::stoi(std::getenv("RANK")));
  EXPECT_EQ(get_world_size(), std::stoi(std::getenv("WORLD_SIZE")));
}

TEST_F(ProcessGroupRanksTest, AGroupIsMadeOnce) {
  EXPECT_TRUE(is_initialized());
  EXPECT_ANY_THROW(init_process_group());
  EXPECT_TRUE(is_initialized());
}

TEST_F(ProcessGroupRanksTest, AllReduceCombinesTheValuesOfAllRanks) {
  at::Tensor sum = at::zeros({2, 3}), most = input_of(get_world_size() - 1);
  for (int rank = 0; rank < get_world_size(); ++rank) sum += input_of(rank);
  at::Tensor tensor = input_of(get_rank());
  all_reduce(tensor);
  EXPECT_TRUE(tensor.equal(sum)) << tensor;
  tensor = input_of(get_rank());
  all_reduce(tensor, ReduceOp::MAX);
  EXPECT_TRUE(tensor.equal(most)) << tensor;
}

TEST_F(ProcessGroupRanksTest, AllReduceTakesScalarsAndNothing) {
  at::Tensor scalar = at::full({}, 2.0);
  all_reduce(scalar);
  EXPECT_EQ(scalar.item<double>(), 2.0 * get_world_size());
  at::Tensor nothing = at::empty({0, 3});
  all_reduce(nothing);
  EXPECT_EQ(nothing.numel(), 0);
}

TEST_F(ProcessGroupRanksTest, BroadcastGivesEveryRankTheSourcesValues) {
  for (int src = 0; src < get_world_size(); ++src) {
    at::Tensor tensor = input_of(get_rank());
    broadcast(tensor, src);
    EXPECT_TRUE(tensor.equal(input_of(src))) << tensor;
  }
}

// The last rank leaves; the others are in the middle of a collective with it.
TEST_F(ProcessGroupRanksTest, APeerThatLeavesIsAnErrorThatNamesTheCollective) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs a peer";
  const std::string rank = std::to_string(get_rank());
  barrier();  // Until then a rank may not have connected to the one that leaves.
  if (get_rank() == get_world_size() - 1) return destroy_process_group();
  at::Tensor tensor = input_of(get_rank());
  try {
    all_reduce(tensor);
    ADD_FAILURE() << "all_reduce without the last rank";
  } catch (const c10::DistBackendError& error) {
    EXPECT_THAT(error.what_without_backtrace(),
                ::testing::ContainsRegex("all_reduce on rank " + rank +
                                         " of [0-9]: the connection to rank [0-9] was lost: "));
  }
  destroy_process_group();
}

// The last rank does not come to a collective; whoever waits for it would do so for an hour.
TEST_F(ProcessGroupRanksTest, AbortEndsWhatIsUnderWayInEveryGroup) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs a peer";
  const Group slow = new_group(std::nullopt, {.timeout = std::chrono::hours(1)});
  barrier({.group = slow});  // All have connected.
  const auto store = default_group().getStore();
  const int last = get_world_size() - 1;
  if (get_rank() != last) {
    const at::Tensor tensor = input_of(get_rank());
    const Work work = all_reduce(tensor, ReduceOp::SUM, {.group = slow, .async_op = true});
    abort_process_group();
    EXPECT_THROW(work.wait(), c10::DistBackendError);
    EXPECT_THROW(all_reduce(tensor, ReduceOp::SUM, {.group = slow}), c10::DistBackendError);
    EXPECT_THROW(all_reduce(tensor), c10::DistBackendError);
    store->set("aborted" + std::to_string(get_rank()), "");
  }
  // It stays until then, for its end would end the collectives as well.
  for (int rank = 0; rank < last; ++rank) store->wait({"aborted" + std::to_string(rank)});
  destroy_process_group();
}

TEST_F(ProcessGroupRanksTest, ABroadcastFromNobodyIsRefusedWithoutTheOthers) {
  EXPECT_ANY_THROW(broadcast(at::ones({1}), get_world_size()));
  EXPECT_ANY_THROW(broadcast(at::ones({1}), -1));
}

}  // namespace
}  // namespace distrun
