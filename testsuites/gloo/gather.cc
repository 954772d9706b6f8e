#include <ATen/ATen.h>

#include "distrun/testing/tensors.h"
#include "testsuites/gloo/collectives.h"
#include "testsuites/gloo/process_group_gloo_fixture.h"

namespace distrun {
namespace {

// One output tensor per rank.
TensorVector empty_outputs(const c10d::Backend& group, MakeTensor make) {
  TensorVector outputs;
  for (int i = 0; i < group.getSize(); ++i) outputs.push_back(make(at::full({1}, -1)));
  return outputs;
}

// Only the root passes outputs.
WorkPtr gather_to(c10d::Backend& group, int root, const TensorVector& outputs,
                  const at::Tensor& input) {
  if (root == group.getRank()) return gather(group, {outputs}, {input}, root);
  return gather(group, {}, {input}, root);
}

// The inputs of all ranks: base, base + 1, …
TensorVector gathered(const c10d::Backend& group, int base, MakeTensor make) {
  TensorVector all;
  for (int rank = 0; rank < group.getSize(); ++rank)
    all.push_back(make(at::full({1}, base + rank)));
  return all;
}

void gather_basics(c10d::Backend& group, MakeTensor make) {
  const at::Tensor input = make(at::full({1}, group.getRank()));
  const TensorVector outputs = empty_outputs(group, make);
  std::vector<WorkPtr> works;
  for (int root = 0; root < group.getSize(); ++root) {
    works.push_back(gather_to(group, root, outputs, input));
  }
  for (int root = 0; root < group.getSize(); ++root) {
    const TensorVector result = result_of(works[root]);
    if (root == group.getRank()) {
      EXPECT_TENSORS_EQUAL(result, gathered(group, 0, make));
    }
  }
}

DISTRIBUTED_TEST(gloo, ProcessGroupGlooTest, test_gather_basics,
                 {.ranks = 4, .backends = {"gloo", "shm"}}) {
  gather_basics(*create_gloo(), on_cpu);
}

DISTRIBUTED_TEST(gloo, ProcessGroupGlooTest, test_gather_basics_cuda, {.ranks = 4, .min_gpus = 1}) {
  gather_basics(*create_gloo(), on_cuda);
}

DISTRIBUTED_TEST(gloo, ProcessGroupGlooTest, test_gather_noncontiguous_input,
                 {.ranks = 4, .backends = {"gloo", "shm"}}) {
  ASSERT_FALSE(as_column(at::ones({1})).is_contiguous());
  gather_basics(*create_gloo(), as_column);
}

// Each rank is root once in each of 1,000 rounds.
void gather_stress(c10d::Backend& group, MakeTensor make) {
  const int rank = group.getRank(), size = group.getSize();
  std::vector<WorkPtr> works;
  for (int i = 0; i < 1000; ++i) {
    const TensorVector outputs = empty_outputs(group, make);
    for (int root = 0; root < size; ++root) {
      works.push_back(gather_to(group, root, outputs, make(at::full({1}, i + rank))));
    }
  }
  for (int i = 0; i < 1000; ++i) {
    for (int root = 0; root < size; ++root) {
      const TensorVector result = result_of(works[i * size + root]);
      if (root != rank) continue;
      ASSERT_TENSORS_EQUAL(result, gathered(group, i, make)) << "iteration " << i;
    }
  }
}

DISTRIBUTED_TEST(gloo, ProcessGroupGlooTest, test_gather_stress,
                 {.ranks = 4, .backends = {"gloo", "shm"}}) {
  gather_stress(*create_gloo(/*threads=*/8), on_cpu);
}

DISTRIBUTED_TEST(gloo, ProcessGroupGlooTest, test_gather_stress_cuda, {.ranks = 4, .min_gpus = 1}) {
  gather_stress(*create_gloo(/*threads=*/8), on_cuda);
}

}  // namespace
}  // namespace distrun
