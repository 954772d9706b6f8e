// Tests that do nothing, or only make a group: runner_bench.cc measures their cost.
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
  barrier();  // Else a rank that still connects sees the others close.
  destroy_process_group();
}

}  // namespace
}  // namespace distrun
