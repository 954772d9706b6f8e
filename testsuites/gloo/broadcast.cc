#include <ATen/ATen.h>

#include "distrun/testing/tensors.h"
#include "distrun/testing/throws.h"
#include "testsuites/gloo/collectives.h"
#include "testsuites/gloo/process_group_gloo_fixture.h"

namespace distrun {
namespace {

DISTRIBUTED_TEST(gloo, ProcessGroupGlooTest, test_empty_tensors,
                 {.ranks = 4, .backends = {"gloo", "shm"}}) {
  const at::Tensor empty = at::empty({0});
  const auto group = create_gloo();
  const TensorVector result = result_of(broadcast(*group, {empty}, /*root=*/0));
  EXPECT_EQ(result[0].numel(), 0);
  EXPECT_TENSORS_EQUAL(result[0], empty);
}

DISTRIBUTED_TEST(gloo, ProcessGroupGlooTest, test_broadcast_checks, {.ranks = 4}) {
  const auto group = create_gloo();
  const at::Tensor x = at::zeros({1}), other_type = at::zeros({1}, at::kDouble);
  const at::Tensor other_size = at::zeros({2});

  EXPECT_THROWS_WITH(broadcast(*group, {x}, -1), c10::Error, "invalid root rank");
  EXPECT_THROWS_WITH(broadcast(*group, {x}, world_size()), c10::Error, "invalid root rank");
  EXPECT_THROWS_WITH(broadcast(*group, {x}, rank(), -1), c10::Error, "invalid root tensor");
  EXPECT_THROWS_WITH(broadcast(*group, {x}, rank(), 1), c10::Error, "invalid root tensor");
  EXPECT_THROWS_WITH(broadcast(*group, {}, rank()), c10::Error, "invalid root tensor");
  EXPECT_THROWS_WITH(broadcast(*group, {x, other_type}, rank()), c10::Error, "invalid tensor type");
  EXPECT_THROWS_WITH(broadcast(*group, {x, other_size}, rank()), c10::Error, "invalid tensor size");
}

// Each rank is root once with each of its tensors.
void broadcast_basics(c10d::Backend& group, MakeTensor make) {
  const auto number = [&](double value) { return make(at::full({1}, value)); };
  const int rank = group.getRank();
  for (int root = 0; root < group.getSize(); ++root) {
    const TensorVector one = result_of(broadcast(group, {make(at::full({1}, rank))}, root));
    EXPECT_TENSORS_EQUAL(one[0], make(at::full({1}, root)));

    for (int root_tensor = 0; root_tensor < 2; ++root_tensor) {
      const TensorVector two =
          result_of(broadcast(group, {number(rank * 2), number(rank * 2 + 1)}, root, root_tensor));
      const at::Tensor expected = number(root * 2 + root_tensor);
      EXPECT_TENSORS_EQUAL(two, {expected, expected})
          << "root " << root << ", tensor " << root_tensor;
    }
  }
  // In CPU memory for any `make`, as in the original: a group takes both.
  const TensorVector result = result_of(broadcast(group, {at::full({1}, rank + 1.0)}, /*root=*/0));
  EXPECT_TENSORS_EQUAL(result[0], at::full({1}, 1.0));
}

DISTRIBUTED_TEST(gloo, ProcessGroupGlooTest, test_broadcast_basics, {.ranks = 4}) {
  broadcast_basics(*create_gloo(), on_cpu);
}

DISTRIBUTED_TEST(gloo, ProcessGroupGlooTest, test_broadcast_basics_cuda,
                 {.ranks = 4, .min_gpus = 1}) {
  broadcast_basics(*create_gloo(), on_cuda);
}

void broadcast_stress(c10d::Backend& group, MakeTensor make) {
  const int rank = group.getRank(), size = group.getSize();
  TensorVector tensors;
  for (int i = 0; i < 1000; ++i) tensors.push_back(make(at::full({1}, i * size + rank)));
  std::vector<WorkPtr> works;
  for (int i = 0; i < 1000; ++i) works.push_back(broadcast(group, {tensors[i]}, i % size));

  for (int i = 0; i < 1000; ++i) {
    works[i]->wait();
    ASSERT_TENSORS_EQUAL(tensors[i], make(at::full({1}, i * size + i % size))) << "iteration " << i;
  }
}

DISTRIBUTED_TEST(gloo, ProcessGroupGlooTest, test_broadcast_stress,
                 {.ranks = 4, .backends = {"gloo", "shm"}}) {
  broadcast_stress(*create_gloo(/*threads=*/8), on_cpu);
}

DISTRIBUTED_TEST(gloo, ProcessGroupGlooTest, test_broadcast_stress_cuda,
                 {.ranks = 4, .min_gpus = 1}) {
  broadcast_stress(*create_gloo(/*threads=*/8), on_cuda);
}

}  // namespace
}  // namespace distrun
