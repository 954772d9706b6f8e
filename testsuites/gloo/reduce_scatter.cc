#include <ATen/ATen.h>

#include "distrun/testing/tensors.h"
#include "testsuites/gloo/collectives.h"
#include "testsuites/gloo/process_group_gloo_fixture.h"

// 2.13 renames these collectives; 2.11 has only the old names.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace distrun {
namespace {

// All ranks have the same input, so this rank's part is multiplied by their number.
at::Tensor expected_of(const at::Tensor& input, const c10d::ProcessGroup& group) {
  return input.chunk(group.getSize())[group.getRank()] * group.getSize();
}

// Allows for rounding. The default atol for floats, 1e-5, would hide errors in tiny numbers;
// torch.allclose in the original does not.
constexpr TensorTolerance kRounding{.rtol = 1e-6, .atol = 0};

DISTRIBUTED_TEST(gloo, ProcessGroupGlooTest, test_reduce_scatter_tensor,
                 {.ranks = 4, .backends = {"gloo", "shm"}}) {
  const auto group = create_process_group();
  at::manual_seed(42);
  at::Tensor output = at::empty({20, 20}), input = at::rand({20 * world_size(), 20});
  const at::Tensor expected = expected_of(input, *group);
  group->_reduce_scatter_base(output, input)->wait();
  EXPECT_TENSORS_CLOSE(output, expected, kRounding);
}

DISTRIBUTED_TEST(gloo, ProcessGroupGlooTest, test_reduce_scatter_tensor_coalesced,
                 {.ranks = 4, .backends = {"gloo", "shm"}}) {
  const auto group = create_process_group();
  at::manual_seed(42);
  TensorVector inputs, outputs, expected;
  for (const int n : {5, 10, 15}) {
    inputs.push_back(at::rand({n * world_size(), n}));
    outputs.push_back(at::empty({n, n}));
    expected.push_back(expected_of(inputs.back(), *group));
  }
  group->reduce_scatter_tensor_coalesced(outputs, inputs)->wait();
  EXPECT_TENSORS_CLOSE(outputs, expected, kRounding);
}

}  // namespace
}  // namespace distrun
