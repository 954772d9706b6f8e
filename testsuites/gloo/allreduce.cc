#include <ATen/ATen.h>

#include "distrun/testing/tensors.h"
#include "distrun/testing/throws.h"
#include "testsuites/gloo/collectives.h"
#include "testsuites/gloo/process_group_gloo_fixture.h"
#include "testsuites/gloo/reduce_inputs.h"

namespace distrun {
namespace {

DISTRIBUTED_TEST(gloo, ProcessGroupGlooTest, test_allreduce_checks, {.ranks = 4}) {
  const auto group = create_gloo();
  const at::Tensor x = at::zeros({1}), other_type = at::zeros({1}, at::kDouble);
  const at::Tensor other_size = at::zeros({2});

  EXPECT_THROWS_WITH(allreduce(*group, {}), c10::Error, "requires non-empty tensor list");
  EXPECT_THROWS_WITH(allreduce(*group, {x, other_type}), c10::Error, "invalid tensor type");
  EXPECT_THROWS_WITH(allreduce(*group, {x, other_size}), c10::Error, "invalid tensor size");
}

void allreduce_basics(c10d::Backend& group, MakeTensor make) {
  const int rank = group.getRank(), size = group.getSize();
  for (const auto& [op, input, expected] : reduce_cases(rank, size)) {
    const TensorVector result = result_of(allreduce(group, {make(input)}, op));
    EXPECT_TENSORS_EQUAL(result[0], make(expected)) << "op " << int(op);
  }
  for (const auto& [op, inputs, expected] : multi_input_reduce_cases(rank, size)) {
    const TensorVector result = result_of(allreduce(group, {make(inputs[0]), make(inputs[1])}, op));
    EXPECT_TENSORS_EQUAL(result, {make(expected), make(expected)}) << "op " << int(op);
  }
  // SUM is the default.
  const TensorVector result = result_of(allreduce(group, {make(at::full({1}, rank + 1.0))}));
  EXPECT_TENSORS_EQUAL(result[0], make(at::full({1}, size * (size + 1) / 2.0)));
}

DISTRIBUTED_TEST(gloo, ProcessGroupGlooTest, test_allreduce_basics, {.ranks = 4}) {
  allreduce_basics(*create_gloo(), on_cpu);
}

DISTRIBUTED_TEST(gloo, ProcessGroupGlooTest, test_allreduce_basics_cuda,
                 {.ranks = 4, .min_gpus = 1}) {
  allreduce_basics(*create_gloo(), on_cuda);
}

void allreduce_stress(c10d::Backend& group, MakeTensor make) {
  const int rank = group.getRank(), size = group.getSize();
  std::vector<WorkPtr> works;
  for (int i = 0; i < 1000; ++i) {
    works.push_back(allreduce(group, {make(at::full({1}, i + rank))}));
  }
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TENSORS_EQUAL(result_of(works[i])[0],
                         make(at::full({1}, i * size + size * (size - 1) / 2)))
        << "iteration " << i;
  }
}

DISTRIBUTED_TEST(gloo, ProcessGroupGlooTest, test_allreduce_stress,
                 {.ranks = 4, .backends = {"gloo", "shm"}}) {
  allreduce_stress(*create_gloo(/*threads=*/8), on_cpu);
}

DISTRIBUTED_TEST(gloo, ProcessGroupGlooTest, test_allreduce_stress_cuda,
                 {.ranks = 4, .min_gpus = 1}) {
  allreduce_stress(*create_gloo(/*threads=*/8), on_cuda);
}

}  // namespace
}  // namespace distrun
