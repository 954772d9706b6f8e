#include <ATen/ATen.h>

#include "distrun/testing/tensors.h"
#include "distrun/testing/throws.h"
#include "testsuites/gloo/collectives.h"
#include "testsuites/gloo/process_group_gloo_fixture.h"

namespace distrun {
namespace {

// One tensor each for first, first + 1, …
TensorVector counted(int first, int count, MakeTensor make) {
  TensorVector tensors;
  for (int i = first; i < first + count; ++i) tensors.push_back(make(at::full({1}, i)));
  return tensors;
}

TensorVector unwritten(int count, MakeTensor make) {
  TensorVector tensors;
  for (int i = 0; i < count; ++i) tensors.push_back(make(at::full({1}, -1)));
  return tensors;
}

DISTRIBUTED_TEST(gloo, ProcessGroupGlooTest, test_allgather_checks, {.ranks = 4}) {
  const auto group = create_gloo();
  const int size = world_size();
  const at::Tensor x = at::zeros({1}), other_type = at::zeros({1}, at::kDouble);
  const at::Tensor other_size = at::zeros({2});
  const TensorVector outputs(size, x);
  const TensorVectors two_outputs(2, TensorVector(2 * size, x));
  const auto with_last = [&](const at::Tensor& last) {
    TensorVector tensors = outputs;
    tensors.back() = last;
    return tensors;
  };

  EXPECT_THROWS_WITH(allgather(*group, {}, {}), c10::Error, "requires non-empty input tensor list");
  EXPECT_THROWS_WITH(allgather(*group, {}, {x}), c10::Error,
                     "requires input/output tensor lists to have the same length");
  EXPECT_THROWS_WITH(allgather(*group, {outputs, outputs}, {x}), c10::Error,
                     "requires input/output tensor lists to have the same length");
  EXPECT_THROWS_WITH(allgather(*group, {TensorVector(size - 1, x)}, {x}), c10::Error,
                     "invalid output tensor list");
  EXPECT_THROWS_WITH(allgather(*group, {TensorVector(size + 1, x)}, {x}), c10::Error,
                     "invalid output tensor list");
  EXPECT_THROWS_WITH(allgather(*group, two_outputs, {x, other_type}), c10::Error,
                     "invalid tensor type");
  EXPECT_THROWS_WITH(allgather(*group, two_outputs, {x, other_size}), c10::Error,
                     "invalid tensor size");
  EXPECT_THROWS_WITH(allgather(*group, {with_last(other_type)}, {x}), c10::Error,
                     "invalid tensor type");
  EXPECT_THROWS_WITH(allgather(*group, {with_last(other_size)}, {x}), c10::Error,
                     "invalid tensor size");
}

// With one, two and three tensors per rank.
void allgather_basics(c10d::Backend& group, MakeTensor make) {
  for (const int n : {1, 2, 3}) {
    const int all = n * group.getSize();
    TensorVectors outputs;
    for (int i = 0; i < n; ++i) outputs.push_back(unwritten(all, make));
    const auto work = allgather(group, outputs, counted(n * group.getRank(), n, make));
    const TensorVectors result = n == 1 ? TensorVectors{result_of(work)} : results_of(work);
    EXPECT_TENSORS_EQUAL(result, TensorVectors(n, counted(0, all, make))) << "n is " << n;
  }
}

DISTRIBUTED_TEST(gloo, ProcessGroupGlooTest, test_allgather_basics, {.ranks = 4}) {
  allgather_basics(*create_gloo(), on_cpu);
}

DISTRIBUTED_TEST(gloo, ProcessGroupGlooTest, test_allgather_basics_cuda,
                 {.ranks = 4, .min_gpus = 1}) {
  allgather_basics(*create_gloo(), on_cuda);
}

DISTRIBUTED_TEST(gloo, ProcessGroupGlooTest, test_allgather_noncontiguous_input, {.ranks = 4}) {
  ASSERT_FALSE(as_column(at::ones({1})).is_contiguous());
  allgather_basics(*create_gloo(), as_column);
}

void allgather_stress(c10d::Backend& group, MakeTensor make) {
  const int size = group.getSize();
  std::vector<WorkPtr> works;
  for (int i = 0; i < 1000; ++i) {
    const at::Tensor input = make(at::full({1}, i + group.getRank()));
    works.push_back(allgather(group, {unwritten(size, make)}, {input}));
  }
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TENSORS_EQUAL(result_of(works[i]), counted(i, size, make)) << "iteration " << i;
  }
}

DISTRIBUTED_TEST(gloo, ProcessGroupGlooTest, test_allgather_stress,
                 {.ranks = 4, .backends = {"gloo", "shm"}}) {
  allgather_stress(*create_gloo(/*threads=*/8), on_cpu);
}

DISTRIBUTED_TEST(gloo, ProcessGroupGlooTest, test_allgather_stress_cuda,
                 {.ranks = 4, .min_gpus = 1}) {
  allgather_stress(*create_gloo(/*threads=*/8), on_cuda);
}

}  // namespace
}  // namespace distrun
