// A distributed test, run by each of its ranks:
//
//     distrun test --binary build-library/use_testing
#include <ATen/ops/full.h>

#include "backends/collectives.h"
#include "backends/process_group.h"
#include "testsuites/testing/distributed_test.h"

struct SumTest : distrun::DistributedTest {};

DISTRIBUTED_TEST(mine, SumTest, test_sum, {.ranks = 2}) {
  distrun::init_process_group();
  at::Tensor sum = at::full({3}, rank() + 1);
  distrun::all_reduce(sum);
  EXPECT_TENSORS_EQUAL(sum, at::full({3}, 3));
}
