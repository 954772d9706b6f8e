// Groups of some of the ranks, on every rank of a real run:
//
//     distrun launch --nproc-per-node 3 build/tests/backends_multirank_test
//         --gtest_filter='GroupsMultirankTest.*'
//
// Every rank runs every test in the same order.
#include <functional>
#include <numeric>

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "backends/test/multirank_test.h"
#include "distrun/backend_registry.h"
#include "distrun/point_to_point.h"

namespace distrun {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::SizeIs;

struct OptionsOfMine : c10d::Backend::Options {
  OptionsOfMine() : Options("mine") {}
};

class GroupsMultirankTest : public MultirankTest {
 protected:
  static double sum_of_ranks(const Group& group) {
    const at::Tensor tensor = at::full({1}, 1.0 * get_rank());
    all_reduce(tensor, ReduceOp::SUM, {.group = group});
    return tensor.item<double>();
  }
  static double sum_of(const std::vector<int>& ranks) {
    return std::accumulate(ranks.begin(), ranks.end(), 0.0);
  }
  static std::chrono::milliseconds timeout_of(const Group& group) {
    return group->getDefaultBackend()->getBackendOptions()->timeout;
  }
  static std::vector<int> all() { return get_process_group_ranks(); }
  static std::vector<int> but_the_first() {
    auto ranks = all();
    if (ranks.size() > 1) ranks.erase(ranks.begin());
    return ranks;
  }
};

TEST_F(GroupsMultirankTest, DefaultGroupHasAllRanks) {
  EXPECT_THAT(all(), SizeIs(get_world_size()));
  EXPECT_TRUE(Group().is_member());
  EXPECT_EQ(sum_of_ranks({}), sum_of(all()));
  EXPECT_EQ(get_backend(), backend());
  EXPECT_EQ(get_backend_config(), backend() == "gloo" ? "cpu:gloo,cuda:gloo" : "cpu:" + backend());
}

TEST_F(GroupsMultirankTest, GroupHasItsOwnRanks) {
  const auto ranks = but_the_first();
  const Group group = new_group(ranks);
  EXPECT_EQ(get_process_group_ranks(group), ranks);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    EXPECT_EQ(get_group_rank(group, ranks[i]), static_cast<int>(i));
    EXPECT_EQ(get_global_rank(group, static_cast<int>(i)), ranks[i]);
  }
  if (!group.is_member()) {
    EXPECT_EQ(get_rank(group), -1);
    EXPECT_EQ(get_world_size(group), -1);
    EXPECT_THAT(error_of([&] { group.process_group(); }), HasSubstr("this rank is not in group 1"));
    return;
  }
  EXPECT_EQ(get_rank(group), get_group_rank(group, get_rank()));
  EXPECT_THAT(ranks, SizeIs(get_world_size(group)));
  EXPECT_EQ(sum_of_ranks(group), sum_of(ranks));
  const at::Tensor from_last = at::full({1}, 1.0 * get_rank());
  broadcast(from_last, ranks.back(), {.group = group});
  EXPECT_EQ(from_last.item<double>(), ranks.back());
  const at::Tensor from_first = at::full({1}, 1.0 * get_rank());
  broadcast(from_first, GroupRank(0), {.group = group});
  EXPECT_EQ(from_first.item<double>(), ranks.front());
}

// Group ranks differ from global ranks here. Every function that takes or returns a rank maps it.
TEST_F(GroupsMultirankTest, RootsAndPeersAreGlobalRanks) {
  const auto ranks = but_the_first();
  const Group group = new_group(ranks);
  if (!group.is_member()) return;
  const int root = ranks.back(), size = static_cast<int>(ranks.size());
  const bool is_root = get_rank() == root;
  const CollectiveOptions options{.group = group};

  const at::Tensor most = input();
  reduce(most, root, ReduceOp::MAX, options);
  if (is_root) {
    EXPECT_TRUE(most.equal(input_of(root))) << most;
  }
  Tensors all;
  for (int i = 0; is_root && i < size; ++i) all.push_back(at::zeros({2, 3}));
  gather(input(), all, root, options);
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_TRUE(all[i].equal(input_of(ranks[i]))) << i;
  const at::Tensor part = at::zeros({2, 3});
  scatter(part, all, root, options);
  EXPECT_TRUE(part.equal(input())) << part;
  EXPECT_EQ(broadcast_bytes(std::to_string(get_rank()), root, group), std::to_string(root));
  EXPECT_THAT(gather_bytes("", root, group), SizeIs(is_root ? ranks.size() : 0));

  if (size == 1) return;
  if (get_rank() == ranks.front()) send(input(), root, {.group = group});
  const at::Tensor got = at::zeros({2, 3});
  if (is_root) {
    EXPECT_EQ(recv(got, std::nullopt, {.group = group}), ranks.front());
  }
}

TEST_F(GroupsMultirankTest, SortsTheRanksOfAGroup) {
  auto ranks = all();
  std::reverse(ranks.begin(), ranks.end());
  const Group group = new_group(ranks);
  EXPECT_EQ(get_process_group_ranks(group), all());
  EXPECT_EQ(get_rank(group), get_rank());
  EXPECT_THAT(get_process_group_ranks(new_group({get_world_size() - 1})), SizeIs(1));
  rendezvous_at("connected");  // Dropping a group breaks peers that still connect.
}

TEST_F(GroupsMultirankTest, RejectsInvalidGroupsOnEveryRank) {
  const int ranks = get_world_size();
  EXPECT_THAT(error_of([] { new_group(std::vector<int>()); }),
              HasSubstr("the list of ranks is empty"));
  EXPECT_THAT(error_of([&] {
                new_group({{0, ranks}});
              }),
              HasSubstr("rank " + std::to_string(ranks) + " is out of range"));
  EXPECT_THAT(error_of([] { new_group({{-1}}); }), HasSubstr("rank -1 is out of range"));
  EXPECT_THAT(error_of([] { new_group({{0, 0}}); }), HasSubstr("rank 0 is listed twice"));
  EXPECT_THAT(error_of([] { new_group({{0}}, {.backend = "gluu"}); }), HasSubstr("'gluu'"));
  EXPECT_THAT(error_of([] { new_group({{0}}, {.timeout = std::chrono::milliseconds(0)}); }),
              HasSubstr("the timeout is 0 ms"));
  EXPECT_EQ(sum_of_ranks(new_group()), sum_of(all()));
}

TEST_F(GroupsMultirankTest, SubgroupsHaveConsecutiveRanks) {
  const Subgroups alone = new_subgroups(1);
  EXPECT_THAT(alone.all, SizeIs(get_world_size()));
  ASSERT_TRUE(alone.own);
  EXPECT_EQ(get_process_group_ranks(*alone.own), std::vector<int>{get_rank()});
  const Subgroups together = new_subgroups(get_world_size());
  EXPECT_THAT(together.all, SizeIs(1));
  EXPECT_EQ(sum_of_ranks(together.own.value()), sum_of(all()));
  EXPECT_THAT(error_of([] { new_subgroups(get_world_size() + 1); }),
              HasSubstr(" ranks into groups of "));
  EXPECT_THAT(error_of([] { new_subgroups(0); }), HasSubstr("cannot divide"));
}

TEST_F(GroupsMultirankTest, SubgroupsByEnumerationMustNotShareARank) {
  const Subgroups first = new_subgroups_by_enumeration({{0}});
  EXPECT_EQ(first.own.has_value(), get_rank() == 0);
  EXPECT_THAT(error_of([] {
                new_subgroups_by_enumeration({{0}, {0}});
              }),
              HasSubstr("rank 0 is in two of the groups"));
  EXPECT_THAT(error_of([] { new_subgroups_by_enumeration({}); }),
              HasSubstr("the list of groups is empty"));
}

// Ranks outside a local group do not take part in its creation.
TEST_F(GroupsMultirankTest, OnlyMembersCreateALocalGroup) {
  const auto ranks = but_the_first();
  const bool is_member = get_rank() >= ranks.front();
  if (!is_member) return;
  const Group group = new_group(ranks, {.use_local_synchronization = true});
  const Group again = new_group(ranks, {.use_local_synchronization = true});
  EXPECT_EQ(sum_of_ranks(group), sum_of(ranks));
  EXPECT_EQ(sum_of_ranks(again), sum_of(ranks));
}

TEST_F(GroupsMultirankTest, NamesALocalGroupOnRanksOutsideIt) {
  const auto ranks = but_the_first();
  if (get_rank() >= ranks.front()) return;
  const Group others = new_group(ranks, {.use_local_synchronization = true});
  EXPECT_THAT(error_of([&] { others.process_group(); }), HasSubstr("is not in group local_1"));
}

TEST_F(GroupsMultirankTest, FreesAGroupWithItsLastCopy) {
  std::string name;
  c10::weak_intrusive_ptr<c10d::ProcessGroup> group(c10::intrusive_ptr<c10d::ProcessGroup>{});
  {
    const Group made = new_group(), copy = made;
    name = made->getGroupName();
    group = c10::weak_intrusive_ptr<c10d::ProcessGroup>(made.process_group());
    EXPECT_EQ(c10d::resolve_process_group(name), made.process_group());
    EXPECT_EQ(copy, made);
    barrier({.group = made});  // Otherwise peers could lose this rank while they connect.
  }
  EXPECT_TRUE(group.expired());
  EXPECT_THROW(c10d::resolve_process_group(name), c10::Error);
}

TEST_F(GroupsMultirankTest, RejectsCollectivesInADestroyedGroup) {
  const Group group = new_group();
  EXPECT_EQ(sum_of_ranks(group), sum_of(all()));
  destroy_process_group(group);
  destroy_process_group(group);
  EXPECT_THAT(error_of([&] { sum_of_ranks(group); }), HasSubstr("group 1 of rank"));
  EXPECT_THAT(error_of([&] { sum_of_ranks(group); }), HasSubstr("has been destroyed"));
  EXPECT_TRUE(is_initialized());
}

TEST_F(GroupsMultirankTest, DestroyingTheDefaultGroupDestroysAllGroups) {
  const Group group = new_group();
  barrier();
  destroy_process_group();
  EXPECT_FALSE(is_initialized());
  EXPECT_THAT(error_of([&] { group.process_group(); }), HasSubstr("has been destroyed"));
  EXPECT_THAT(error_of([] { new_group(); }), HasSubstr("call init_process_group() first"));
  init_process_group({.backend = backend(), .timeout = std::chrono::seconds(30)});
  EXPECT_EQ(sum_of_ranks(new_group()), sum_of(all()));
}

TEST_F(GroupsMultirankTest, GroupUsesTheDefaultGroupTimeoutOrItsOwn) {
  const Group same = new_group(), own = new_group(std::nullopt, {.timeout = seconds(7)});
  EXPECT_EQ(timeout_of(same), seconds(30));
  EXPECT_EQ(timeout_of(own), seconds(7));
  set_timeout(seconds(8));
  const Group later = new_group();
  EXPECT_EQ(timeout_of({}), seconds(8));
  EXPECT_EQ(timeout_of(later), seconds(8));
  EXPECT_EQ(timeout_of(same), seconds(30));
  rendezvous_at("connected");
}

TEST_F(GroupsMultirankTest, TwoGroupsMayUseTheSameOptions) {
  const auto options = c10d::ProcessGroupGloo::Options::create_default(seconds(9));
  const Group one = new_group(std::nullopt, {.timeout = seconds(5), .backend_options = options});
  const Group other = new_group(std::nullopt, {.timeout = seconds(6), .backend_options = options});
  EXPECT_EQ(timeout_of(one), seconds(5));
  EXPECT_EQ(timeout_of(other), seconds(6));
  EXPECT_EQ(options->timeout, seconds(9));
  EXPECT_EQ(sum_of_ranks(one), sum_of_ranks(other));
}

// Each rank waits for the last, which does not create the group.
TEST_F(GroupsMultirankTest, MissingMemberErrorNamesTheGroup) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs a peer";
  const int last = get_world_size() - 1;
  if (get_rank() == last) return;
  const std::string error = error_of<c10::DistError>(
      [] { new_group(std::nullopt, {.timeout = std::chrono::milliseconds(300)}); });
  EXPECT_THAT(error,
              HasSubstr("rank " + std::to_string(get_rank()) + " creates group 1 of ranks 0"));
}

TEST_F(GroupsMultirankTest, DevicesMayHaveTheirOwnBackends) {
  const Group group = new_group(std::nullopt, {.backend = "CPU:gloo"});
  EXPECT_EQ(get_backend(group), "cpu:gloo");
  EXPECT_EQ(get_backend_config(group), "cpu:gloo");
  EXPECT_EQ(sum_of_ranks(group), sum_of(all()));
  EXPECT_EQ(group->getDeviceTypes(), std::vector{c10::Device(c10::kCPU)});
}

TEST_F(GroupsMultirankTest, UsesARegisteredBackend) {
  static bool registered = false;
  static BackendRequest seen;
  if (!std::exchange(registered, true)) {
    EXPECT_FALSE(is_backend_available("mine"));
    register_backend("mine",
                     [](const BackendRequest& request) {
                       seen = request;
                       BackendRequest without_options = request;
                       without_options.options = {};
                       return make_backend("Gloo", without_options);
                     },
                     {c10::DeviceType::CPU});
    EXPECT_TRUE(is_backend_available("mine"));
    EXPECT_TRUE(is_backend_available("GLOO"));
    EXPECT_FALSE(is_backend_available("theirs"));
  }
  const auto options = c10::make_intrusive<OptionsOfMine>();
  const Group group = new_group(
      std::nullopt,
      {.timeout = std::chrono::minutes(1), .backend = "mine", .backend_options = options});
  EXPECT_EQ(sum_of_ranks(group), sum_of(all()));
  EXPECT_EQ(seen.ranks, all());
  EXPECT_EQ(seen.rank, get_rank());
  EXPECT_EQ(seen.size, get_world_size());
  EXPECT_EQ(seen.timeout, std::chrono::minutes(1));
  EXPECT_EQ(seen.group_name, group->getGroupName());
  EXPECT_EQ(seen.options.get(), options.get());
  seen = {};
  static const bool another =
      (register_backend("theirs", std::bind_front(make_backend, "gloo"), {c10::DeviceType::CUDA}),
       true);
  EXPECT_TRUE(another);
  EXPECT_THAT(error_of([] { new_group(std::nullopt, {.backend = "cpu:mine,cuda:theirs"}); }),
              HasSubstr("names two registered backends"));
}

}  // namespace
}  // namespace distrun
