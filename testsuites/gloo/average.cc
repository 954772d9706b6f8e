// Not among PyTorch's tests: Gloo averages since 2.13; 2.4 rejected AVG.
#include "testsuites/gloo/process_group_gloo_fixture.h"

namespace distrun {
namespace {

DISTRIBUTED_TEST(gloo, ProcessGroupGlooTest, test_allreduce_average,
                 {.ranks = 4, .backends = {"gloo", "shm"}}) {
  const auto group = create_gloo();
  std::vector<at::Tensor> tensors = {at::full({3}, rank() + 0.5)};
  c10d::AllreduceOptions options;
  options.reduceOp = c10d::ReduceOp::AVG;
  group->allreduce(tensors, options)->wait();
  EXPECT_TENSORS_CLOSE(tensors[0], at::full({3}, 2.0));
}

}  // namespace
}  // namespace distrun
