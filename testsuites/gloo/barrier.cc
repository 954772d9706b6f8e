#include <ATen/ATen.h>

#include "distrun/testing/tensors.h"
#include "testsuites/gloo/collectives.h"
#include "testsuites/gloo/process_group_gloo_fixture.h"

namespace distrun {
namespace {

// A barrier completes after every collective that this rank started before, waited for or not.
DISTRIBUTED_TEST(gloo, ProcessGroupGlooTest, test_barrier_implies_wait,
                 {.ranks = 4, .backends = {"gloo", "shm"}}) {
  const auto group = create_gloo();
  TensorVector tensors;
  for (int i = 0; i < 16; ++i) {
    tensors.push_back(at::full({100, 100}, float(i)));
    allreduce(*group, {tensors.back()});  // Its Work is dropped.
  }
  group->barrier()->getFuture()->waitAndThrow();
  for (int i = 0; i < 16; ++i) {
    EXPECT_TENSORS_EQUAL(tensors[i], at::full({100, 100}, float(i * world_size())));
  }
}

}  // namespace
}  // namespace distrun
