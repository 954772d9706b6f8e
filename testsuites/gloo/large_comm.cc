#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "distrun/collectives.h"
#include "distrun/process_group.h"
#include "testsuites/testing/default_group.h"

namespace distrun {
namespace {

struct LargeCommTest : DefaultGroupTest {};

Group new_local_group(std::vector<int> ranks) {
  return new_group(std::move(ranks), {.use_local_synchronization = true});
}

// In a group of two, each rank gets the tensors of both.
void gather_in_pair(const Group& pair, int index) {
  ASSERT_TRUE(pair.is_member());
  const auto input_of = [&](int rank) { return at::tensor({index, rank}); };
  const Tensors got = {at::full({2}, -1), at::full({2}, -1)};
  const at::Tensor input = input_of(get_rank()).to(at::kLong);
  all_gather(got, input, {.group = pair});
  const Tensors expected = {input_of(2 * index).to(at::kLong),
                            input_of(2 * index + 1).to(at::kLong)};
  EXPECT_TENSORS_EQUAL(got, expected);
}

// Each rank creates its own group of two, and inspects the other group.
DISTRIBUTED_TEST(gloo, LargeCommTest, test_new_group_local_sync,
                 {.ranks = 4, .backends = {"gloo", "shm"}}) {
  const int low = rank() % 2, other = 1 - low;
  const Group without = new_local_group({other + 2, other});
  EXPECT_FALSE(without.is_member());
  EXPECT_EQ(get_process_group_ranks(without), (std::vector<int>{other, other + 2}));
  const Group with = new_local_group({low + 2, low});
  ASSERT_TRUE(with.is_member());
  EXPECT_EQ(get_process_group_ranks(with), (std::vector<int>{low, low + 2}));
  EXPECT_EQ(get_rank(with), rank() / 2);
  EXPECT_EQ(get_group_rank(with, rank()), rank() / 2);
  rendezvous("connected");  // Peers may still be connecting; do not drop the group yet.
}

DISTRIBUTED_TEST(gloo, LargeCommTest, test_new_group_local_sync_sanity_check,
                 {.ranks = 4, .backends = {"gloo", "shm"}}) {
  const int index = rank() / 2;
  const Group pair = new_local_group({2 * index, 2 * index + 1});
  gather_in_pair(pair, index);
  rendezvous("gathered");
}

// Groups with the same members, after ranks 0 and 1 have created others.
DISTRIBUTED_TEST(gloo, LargeCommTest, test_new_group_local_sync_duplicate_pg,
                 {.ranks = 4, .backends = {"gloo", "shm"}}) {
  const int index = rank() / 2;
  if (index == 0) {
    EXPECT_TRUE(new_local_group({rank()}).is_member());
  }
  const Group first = new_local_group({2 * index, 2 * index + 1});
  const Group second = new_local_group({2 * index, 2 * index + 1});
  EXPECT_NE(first->getGroupName(), second->getGroupName());
  gather_in_pair(first, index);
  gather_in_pair(second, index);
  rendezvous("gathered");
}

}  // namespace
}  // namespace distrun
