// A distributed test, run by each of its ranks:
//
//     distrun test --binary build-library/use_testing
#include <ATen/ops/full.h>
#include <distrun/collectives.h>
#include <distrun/process_group.h>
#include <distrun/testing.h>

struct SumTest : distrun::DistributedTest {};

DISTRIBUTED_TEST(mine, SumTest, test_sum, {.ranks = 2}) {
  distrun::init_process_group();
  at::Tensor sum = at::full({3}, rank() + 1);
  distrun::all_reduce(sum);
  EXPECT_TENSORS_EQUAL(sum, at::full({3}, 3));
}
