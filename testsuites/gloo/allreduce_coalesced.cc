#include <cstdint>

#include <ATen/ATen.h>

#include "distrun/testing/tensors.h"
#include "distrun/testing/throws.h"
#include "testsuites/gloo/collectives.h"
#include "testsuites/gloo/process_group_gloo_fixture.h"
#include "testsuites/gloo/reduce_inputs.h"

namespace distrun {
namespace {

DISTRIBUTED_TEST(gloo, ProcessGroupGlooTest, test_allreduce_coalesced_checks, {.ranks = 4}) {
  const auto group = create_gloo();
  const at::Tensor x = at::zeros({1}), other_type = at::zeros({1}, at::kDouble);
  const at::Tensor sparse =
      at::sparse_coo_tensor(at::zeros({1, 1}, at::kLong), at::ones({1}, at::kLong), {1});

  EXPECT_THROWS_WITH(allreduce_coalesced(*group, {}), c10::Error, "requires non-empty tensor list");
  EXPECT_THROWS_WITH(allreduce_coalesced(*group, {x, other_type}), c10::Error,
                     "tensors must all have the same type");
  EXPECT_THROWS_WITH(allreduce_coalesced(*group, {x, sparse}), c10::Error,
                     "invalid tensor layout at index");
  EXPECT_THROWS_WITH(allreduce_coalesced(*group, {sparse, sparse.clone()}), c10::Error,
                     "unsupported layout");
}

DISTRIBUTED_TEST(gloo, ProcessGroupGlooTest, test_allreduce_coalesced_checks_cuda,
                 {.ranks = 4, .min_gpus = 1}) {
  const auto group = create_gloo();
  const at::Tensor x = at::zeros({1});
  EXPECT_THROWS_WITH(allreduce_coalesced(*group, {on_cuda(x), on_cuda(x)}), c10::Error,
                     "unsupported device type");
}

DISTRIBUTED_TEST(gloo, ProcessGroupGlooTest, test_allreduce_coalesced_basics,
                 {.ranks = 4, .backends = {"gloo", "shm"}}) {
  const auto group = create_gloo();
  for (const auto& [op, inputs, expected] : coalesced_reduce_cases(rank(), world_size())) {
    EXPECT_TENSORS_EQUAL(result_of(allreduce_coalesced(*group, inputs, op)), expected)
        << "op " << int(op);
  }
}

// Two tensors of one value; in iteration i, a rank's is i + rank.
TensorVector two_of(std::int64_t value) { return {at::full({1}, value), at::full({1}, value)}; }
TensorVector expected_output(int i, int size) { return two_of(i * size + size * (size - 1) / 2); }

DISTRIBUTED_TEST(gloo, ProcessGroupGlooTest, test_allreduce_coalesced_stress,
                 {.ranks = 4, .backends = {"gloo", "shm"}}) {
  const auto group = create_gloo(/*threads=*/8);
  std::vector<WorkPtr> works;
  for (int i = 0; i < 1000; ++i) works.push_back(allreduce_coalesced(*group, two_of(i + rank())));
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TENSORS_EQUAL(result_of(works[i]), expected_output(i, world_size()))
        << "iteration " << i;
  }
}

DISTRIBUTED_TEST(gloo, ProcessGroupGlooTest, test_allreduce_coalesced_async,
                 {.ranks = 4, .backends = {"gloo", "shm"}}) {
  const auto group = create_process_group();
  std::vector<WorkPtr> works;
  for (int i = 0; i < 2; ++i) {
    TensorVector tensors = two_of(i + rank());
    works.push_back(group->allreduce_coalesced(tensors));
  }
  for (int i = 0; i < 2; ++i) {
    EXPECT_TENSORS_EQUAL(result_of(works[i]), expected_output(i, world_size()))
        << "iteration " << i;
  }
}

}  // namespace
}  // namespace distrun
