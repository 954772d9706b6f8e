#include <ATen/ATen.h>

#include "distrun/testing/tensors.h"
#include "distrun/testing/throws.h"
#include "testsuites/gloo/collectives.h"
#include "testsuites/gloo/process_group_gloo_fixture.h"
#include "testsuites/gloo/reduce_inputs.h"

namespace distrun {
namespace {

using c10d::ReduceOp;

DISTRIBUTED_TEST(gloo, ProcessGroupGlooTest, test_reduce_checks, {.ranks = 4}) {
  const auto group = create_gloo();
  const at::Tensor x = at::zeros({1});

  EXPECT_THROWS_WITH(reduce(*group, {x}, -1), c10::Error, "invalid root rank");
  EXPECT_THROWS_WITH(reduce(*group, {x}, world_size()), c10::Error, "invalid root rank");
  EXPECT_THROWS_WITH(reduce(*group, {x}, rank(), ReduceOp::SUM, /*root_tensor=*/1), c10::Error,
                     "invalid root tensor");
  EXPECT_THROWS_WITH(reduce(*group, {x, x}, rank()), c10::Error,
                     "requires a single-element tensor list");
}

void reduce_basics(c10d::Backend& group, MakeTensor make) {
  for (const auto& [op, input, expected] : reduce_cases(group.getRank(), group.getSize())) {
    for (int root = 0; root < group.getSize(); ++root) {
      const TensorVector result = result_of(reduce(group, {make(input)}, root, op));
      if (root != group.getRank()) continue;
      EXPECT_TENSORS_EQUAL(result[0], make(expected)) << "op " << int(op);
    }
  }
}

DISTRIBUTED_TEST(gloo, ProcessGroupGlooTest, test_reduce_basics,
                 {.ranks = 4, .backends = {"gloo", "shm"}}) {
  reduce_basics(*create_gloo(), on_cpu);
}

DISTRIBUTED_TEST(gloo, ProcessGroupGlooTest, test_reduce_basics_cuda, {.ranks = 4, .min_gpus = 1}) {
  reduce_basics(*create_gloo(), on_cuda);
}

// Each rank is root once in each of 1,000 rounds.
void reduce_stress(c10d::Backend& group, MakeTensor make) {
  const int rank = group.getRank(), size = group.getSize();
  std::vector<WorkPtr> works;
  for (int i = 0; i < 1000; ++i) {
    for (int root = 0; root < size; ++root) {
      works.push_back(reduce(group, {make(at::full({1}, i + rank))}, root));
    }
  }
  for (int i = 0; i < 1000; ++i) {
    for (int root = 0; root < size; ++root) {
      const TensorVector result = result_of(works[i * size + root]);
      if (root != rank) continue;
      ASSERT_TENSORS_EQUAL(result[0], make(at::full({1}, i * size + size * (size - 1) / 2)))
          << "iteration " << i;
    }
  }
}

DISTRIBUTED_TEST(gloo, ProcessGroupGlooTest, test_reduce_stress,
                 {.ranks = 4, .backends = {"gloo", "shm"}}) {
  reduce_stress(*create_gloo(/*threads=*/8), on_cpu);
}

DISTRIBUTED_TEST(gloo, ProcessGroupGlooTest, test_reduce_stress_cuda, {.ranks = 4, .min_gpus = 1}) {
  reduce_stress(*create_gloo(/*threads=*/8), on_cuda);
}

}  // namespace
}  // namespace distrun
