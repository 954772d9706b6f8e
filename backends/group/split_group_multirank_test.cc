// Groups that are divided, and groups that lose ranks, on every rank of a real run.
#include <string>
#include <vector>

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>

#include "backends/test/multirank_test.h"
#include "distrun/split_group.h"

namespace distrun {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class SplitGroupMultirankTest : public MultirankTest {
 protected:
  // The sum of the global ranks of the members, over the group's network.
  static int sum_of_ranks(const Group& group = {}) {
    const at::Tensor tensor = at::full({1}, get_rank());
    all_reduce(tensor, ReduceOp::SUM, {.group = group});
    return tensor.item<int>();
  }
  static std::vector<int> ranks_from(int first) {
    std::vector<int> ranks;
    for (int rank = first; rank < get_world_size(); ++rank) ranks.push_back(rank);
    return ranks;
  }
  static int last() { return get_world_size() - 1; }
};

TEST_F(SplitGroupMultirankTest, EachRankGetsTheGroupOfItsList) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs two ranks";
  const Group own = split_group({{0}, ranks_from(1)});
  ASSERT_TRUE(own.is_member());
  EXPECT_EQ(get_process_group_ranks(own), get_rank() == 0 ? std::vector{0} : ranks_from(1));
  EXPECT_EQ(sum_of_ranks(own), get_rank() == 0 ? 0 : last() * (last() + 1) / 2);
  barrier({.group = own});
}

TEST_F(SplitGroupMultirankTest, ARankInNoListIsNotAMember) {
  const Group own = split_group({{last()}});
  EXPECT_EQ(own.is_member(), get_rank() == last());
  EXPECT_EQ(get_process_group_ranks(own), std::vector{last()});
  if (!own.is_member()) return;
  EXPECT_EQ(sum_of_ranks(own), last());
}

// Group ranks of the parent differ from global ranks, and the order in a list does not matter.
TEST_F(SplitGroupMultirankTest, ListsHaveGroupRanksOfTheParent) {
  if (get_world_size() != 3) GTEST_SKIP() << "is for three ranks";
  const Group parent = new_group(ranks_from(1));
  if (!parent.is_member()) return;
  const Group both = split_group({{1, 0}}, parent);
  EXPECT_EQ(get_process_group_ranks(both), (std::vector{1, 2}));
  EXPECT_EQ(get_rank(both), get_rank() - 1);
  EXPECT_EQ(sum_of_ranks(both), 3);
  const Group alone = split_group({{0}, {1}}, parent);
  EXPECT_EQ(sum_of_ranks(alone), get_rank());
  barrier({.group = parent});
}

TEST_F(SplitGroupMultirankTest, TheSameListsGiveANewGroupEachTime) {
  const std::vector<std::vector<int>> all = {ranks_from(0)};
  const Group first = split_group(all);
  const Group second = split_group(all);
  EXPECT_NE(first, second);
  for (const Group& group : {second, first}) {
    EXPECT_EQ(sum_of_ranks(group), last() * (last() + 1) / 2);
  }
  const Group nested = split_group(all, first);
  EXPECT_EQ(sum_of_ranks(nested), last() * (last() + 1) / 2);
  barrier();
}

TEST_F(SplitGroupMultirankTest, TheGroupHasTheParentsTimeoutAndBackendUnlessGivenOthers) {
  const std::string cpu = "cpu:" + backend();
  const Group parent =
      new_group(std::nullopt, {.timeout = std::chrono::seconds(17), .backend = cpu});
  const auto timeout_of = [](const Group& group) {
    return group->getDefaultBackend()->getBackendOptions()->timeout;
  };
  const std::vector<std::vector<int>> all = {ranks_from(0)};
  const Group same = split_group(all, parent);
  EXPECT_EQ(timeout_of(same), std::chrono::seconds(17));
  EXPECT_EQ(get_backend(same), cpu);
  const Group other =
      split_group(all, {}, {.timeout = std::chrono::seconds(18), .backend = "CPU:" + backend()});
  EXPECT_EQ(timeout_of(other), std::chrono::seconds(18));
  EXPECT_EQ(get_backend_config(other), cpu);
  if (backend() != "gloo") {
    barrier();
    return;
  }
  EXPECT_THAT(
      error_of<c10::ValueError>([&] { split_group(all, parent, {.backend = "cuda:gloo"}); }),
      AllOf(HasSubstr("split_group on rank " + std::to_string(get_rank()) + ": group 1 of "),
            HasSubstr(" has no backend 'gloo' for cuda; it has cpu:gloo")));
  barrier();
}

TEST_F(SplitGroupMultirankTest, AShrunkGroupHasTheRemainingRanks) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs two ranks";
  Group group = new_group();
  if (get_rank() == 0) return;
  const Group old = group;
  group = shrink_group({0}, group);
  EXPECT_EQ(get_process_group_ranks(group), ranks_from(1));
  EXPECT_EQ(get_rank(group), get_rank() - 1);
  EXPECT_EQ(sum_of_ranks(group), last() * (last() + 1) / 2);
  EXPECT_THAT(error_of([&] { sum_of_ranks(old); }), HasSubstr("has been destroyed"));
  barrier({.group = group});
}

// The last rank has failed: the others wait for it in a collective.
TEST_F(SplitGroupMultirankTest, ShrinkingWithAbortEndsCollectivesThatWaitForAnExcludedRank) {
  if (get_world_size() < 3) GTEST_SKIP() << "needs three ranks";
  const Group group = new_group(std::nullopt, {.timeout = std::chrono::hours(1)});
  barrier({.group = group});
  if (get_rank() == last()) return rendezvous_at("shrunk");  // Its exit would end the collective.
  const Work work = all_reduce(input(), ReduceOp::SUM, {.group = group, .async_op = true});
  const Group others = shrink_group({last()}, group, {.abort = true});
  EXPECT_THROW(work.wait(), c10::DistBackendError);
  EXPECT_EQ(sum_of_ranks(others), last() * (last() - 1) / 2);
  rendezvous_at("shrunk");
}

// Global ranks are numbered anew.
TEST_F(SplitGroupMultirankTest, AShrunkDefaultGroupNumbersItsRanksAnew) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs two ranks";
  const int rank = get_rank(), size = get_world_size();
  const Group other = new_group();
  barrier();
  if (rank == 0) return destroy_process_group();
  const Group whole = shrink_group({0});
  EXPECT_TRUE(whole.is_default());
  EXPECT_EQ(get_rank(), rank - 1);
  EXPECT_EQ(get_world_size(), size - 1);
  EXPECT_EQ(get_process_group_ranks(), ranks_from(0));
  EXPECT_EQ(sum_of_ranks(), last() * (last() + 1) / 2);
  EXPECT_THAT(error_of([&] { barrier({.group = other}); }), HasSubstr("has been destroyed"));
  // Its store has other keys than that of the old group, in which group 1 exists.
  const Group next = new_group();
  EXPECT_EQ(sum_of_ranks(next), last() * (last() + 1) / 2);
  broadcast(at::ones({1}), last());
  barrier();
}

TEST_F(SplitGroupMultirankTest, TheDefaultGroupCanShrinkTwiceAndBeCreatedAgain) {
  if (get_world_size() < 3) GTEST_SKIP() << "needs three ranks";
  const int rank = get_rank();
  barrier();
  if (rank == 1) return destroy_process_group();
  shrink_group({1});
  barrier();
  if (rank != 0) return destroy_process_group();
  const Group alone = shrink_group(get_world_size() == 2 ? std::vector{1} : std::vector{1, 2});
  EXPECT_EQ(get_world_size(), 1);
  EXPECT_EQ(sum_of_ranks(alone), 0);
}

TEST_F(SplitGroupMultirankTest, NamesWhatIsWrongWithTheRanks) {
  const std::string here = " on rank " + std::to_string(get_rank()) + ": ";
  const auto split = [](const std::vector<std::vector<int>>& lists) {
    return error_of<c10::ValueError>([&] { split_group(lists); });
  };
  const auto shrink = [](const std::vector<int>& ranks) {
    return error_of<c10::ValueError>([&] { shrink_group(ranks); });
  };
  const int size = get_world_size();
  EXPECT_EQ(split({}), "split_group" + here + "the list of groups is empty");
  EXPECT_EQ(split({{0}, {}}), "split_group" + here + "one of the lists of ranks is empty");
  EXPECT_EQ(split({{0}, {0}}), "split_group" + here + "group rank 0 is listed twice");
  EXPECT_EQ(split({{size}}), c10::str("split_group", here, "group rank ", size,
                                      " is not in the default group; expected 0 to ", last()));
  EXPECT_EQ(shrink({}), "shrink_group" + here + "the list of ranks to exclude is empty");
  EXPECT_THAT(shrink({-1}), HasSubstr("group rank -1 is not in the default group"));
  EXPECT_EQ(shrink({get_rank()}),
            "shrink_group" + here +
                "this rank is in the list of ranks to exclude; only the remaining ranks call it");
  const GroupOptions hurried = {.timeout = std::chrono::milliseconds(0)};
  EXPECT_EQ(error_of<c10::ValueError>([&] { split_group({{0}}, {}, hurried); }),
            "split_group" + here + "the timeout is 0 ms; expected more than 0");
}

}  // namespace
}  // namespace distrun
