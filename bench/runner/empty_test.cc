// Tests that do nothing, or only create a group, for runner_bench.cc.
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "distrun/collectives.h"
#include "distrun/process_group.h"
#include "distrun/testing.h"

namespace distrun {
namespace {

struct Empty : DistributedTest {};

DISTRIBUTED_TEST(bench, Empty, test_4_ranks, {.ranks = 4}) { EXPECT_EQ(world_size(), 4); }

DISTRIBUTED_TEST(bench, Empty, test_group_of_4_ranks, {.ranks = 4}) {
  init_process_group("gloo");
  EXPECT_EQ(default_group().getSize(), 4);
  barrier();  // Otherwise a connecting rank sees others close.
  destroy_process_group();
}

}  // namespace
}  // namespace distrun
