#include <ATen/ATen.h>

#include "distrun/testing/tensors.h"
#include "testsuites/gloo/collectives.h"
#include "testsuites/gloo/process_group_gloo_fixture.h"

namespace distrun {
namespace {

// Only the root passes inputs.
WorkPtr scatter_from(c10d::Backend& group, int root, const at::Tensor& output,
                     const TensorVector& inputs) {
  if (root == group.getRank()) return scatter(group, {output}, {inputs}, root);
  return scatter(group, {output}, {}, root);
}

void scatter_basics(c10d::Backend& group, MakeTensor make) {
  const TensorVector inputs(group.getSize(), make(at::full({1}, group.getRank())));
  std::vector<WorkPtr> works;
  for (int root = 0; root < group.getSize(); ++root) {
    works.push_back(scatter_from(group, root, make(at::full({1}, -1)), inputs));
  }
  for (int root = 0; root < group.getSize(); ++root) {
    EXPECT_TENSORS_EQUAL(result_of(works[root])[0], make(at::full({1}, root)));
  }
}

DISTRIBUTED_TEST(gloo, ProcessGroupGlooTest, test_scatter_basics,
                 {.ranks = 4, .backends = {"gloo", "shm"}}) {
  scatter_basics(*create_gloo(), on_cpu);
}

DISTRIBUTED_TEST(gloo, ProcessGroupGlooTest, test_scatter_basics_cuda,
                 {.ranks = 4, .min_gpus = 1}) {
  scatter_basics(*create_gloo(), on_cuda);
}

// Each rank is root once in each of 1,000 rounds.
void scatter_stress(c10d::Backend& group, MakeTensor make) {
  const int rank = group.getRank(), size = group.getSize();
  std::vector<WorkPtr> works;
  for (int i = 0; i < 1000; ++i) {
    const TensorVector inputs(size, make(at::full({1}, i + rank)));
    for (int root = 0; root < size; ++root) {
      works.push_back(scatter_from(group, root, make(at::full({1}, -1)), inputs));
    }
  }
  for (int i = 0; i < 1000; ++i) {
    for (int root = 0; root < size; ++root) {
      ASSERT_TENSORS_EQUAL(result_of(works[i * size + root])[0], make(at::full({1}, i + root)))
          << "iteration " << i << ", root " << root;
    }
  }
}

DISTRIBUTED_TEST(gloo, ProcessGroupGlooTest, test_scatter_stress,
                 {.ranks = 4, .backends = {"gloo", "shm"}}) {
  scatter_stress(*create_gloo(/*threads=*/8), on_cpu);
}

DISTRIBUTED_TEST(gloo, ProcessGroupGlooTest, test_scatter_stress_cuda,
                 {.ranks = 4, .min_gpus = 1}) {
  scatter_stress(*create_gloo(/*threads=*/8), on_cuda);
}

}  // namespace
}  // namespace distrun
