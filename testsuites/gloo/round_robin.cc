// LibTorch no longer has round robin; these tests use distrun's.
#include "distrun/round_robin.h"

#include <string>

#include <ATen/ATen.h>

#include "distrun/testing/tensors.h"
#include "testsuites/gloo/collectives.h"
#include "testsuites/gloo/process_group_gloo_fixture.h"

namespace distrun {
namespace {

DISTRIBUTED_TEST(gloo, ProcessGroupGlooTest, test_round_robin,
                 {.ranks = 4, .backends = {"gloo", "shm"}}) {
  const auto first = connect_gloo("0", options()), second = connect_gloo("1", options());
  const auto group = make_round_robin({first, second});
  // One more than the groups: the first gets another turn.
  for (int i = 0; i < 3; ++i) {
    const at::Tensor tensor = at::full({100, 100}, float(rank()));
    broadcast(*group, {tensor}, /*root=*/0)->wait();
    EXPECT_TENSORS_EQUAL(tensor, at::zeros({100, 100})) << "collective " << i;
  }
  EXPECT_EQ(first->getSequenceNumberForGroup(), 2u);
  EXPECT_EQ(second->getSequenceNumberForGroup(), 1u);
}

DISTRIBUTED_TEST(gloo, ProcessGroupGlooTest, test_round_robin_create_destroy,
                 {.ranks = 4, .backends = {"gloo", "shm"}}) {
  for (const std::string life : {"first", "second"}) {
    const auto group = make_round_robin(
        {connect_gloo(life + "0", options()), connect_gloo(life + "1", options())});
    for (int i = 0; i < 3; ++i) {
      const at::Tensor tensor = at::ones({10, 10});
      allreduce(*group, {tensor})->wait();
      EXPECT_TENSORS_EQUAL(tensor, at::full({10, 10}, float(world_size())))
          << life << " life, collective " << i;
    }
  }
}

}  // namespace
}  // namespace distrun
