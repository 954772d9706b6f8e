#include <ATen/ATen.h>

#include "distrun/testing/tensors.h"
#include "distrun/testing/throws.h"
#include "testsuites/gloo/collectives.h"
#include "testsuites/gloo/process_group_gloo_fixture.h"

// 2.13 renames these collectives; 2.11 has only the old names.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace distrun {
namespace {

DISTRIBUTED_TEST(gloo, ProcessGroupGlooTest, test_allgather_coalesced_checks, {.ranks = 4}) {
  const auto group = create_gloo();
  const TensorVector inputs = {at::zeros({1})};
  const auto lists = [&](int count) { return TensorVectors(count, {at::zeros({1})}); };
  const auto with_first = [&](const at::Tensor& first) {
    TensorVectors outputs = lists(world_size());
    outputs[0] = {first};
    return outputs;
  };

  EXPECT_THROWS_WITH(allgather_coalesced(*group, with_first(at::zeros({0})), inputs), c10::Error,
                     "invalid size of output tensor at index 0");
  EXPECT_THROWS_WITH(allgather_coalesced(*group, with_first(at::zeros({1}, at::kDouble)), inputs),
                     c10::Error, "invalid tensor type at index 0");
  EXPECT_THROWS_WITH(allgather_coalesced(*group, lists(world_size() + 1), inputs), c10::Error,
                     "output lists should be equal to world size");
  EXPECT_THROWS_WITH(allgather_coalesced(*group, lists(1), inputs), c10::Error,
                     "output lists should be equal to world size");
}

TensorVector twice(int value) { return {at::full({1}, value), at::full({1}, value)}; }

DISTRIBUTED_TEST(gloo, ProcessGroupGlooTest, test_allgather_coalesced_async,
                 {.ranks = 4, .backends = {"gloo", "shm"}}) {
  const auto group = create_process_group();
  std::vector<TensorVectors> outputs, expected;
  std::vector<WorkPtr> works;
  for (int i = 0; i < 2; ++i) {
    TensorVector inputs = twice(i + rank());
    outputs.emplace_back();
    expected.emplace_back();
    for (int from = 0; from < world_size(); ++from) {
      outputs[i].push_back(twice(0));
      expected[i].push_back(twice(i + from));
    }
    works.push_back(group->allgather_coalesced(outputs[i], inputs));
  }
  for (int i = 0; i < 2; ++i) {
    works[i]->getFuture()->waitAndThrow();
    EXPECT_TENSORS_EQUAL(outputs[i], expected[i]) << "iteration " << i;
  }
}

DISTRIBUTED_TEST(gloo, ProcessGroupGlooTest, test_allgather_into_tensor_coalesced,
                 {.ranks = 4, .backends = {"gloo", "shm"}}) {
  const auto group = create_process_group();
  at::manual_seed(42);  // The same inputs on every rank.
  TensorVector inputs, outputs, expected;
  for (const int n : {5, 10, 15}) {
    inputs.push_back(at::rand({n, n}));
    outputs.push_back(at::empty({n * world_size(), n}));
    expected.push_back(inputs.back().repeat({world_size(), 1}));
  }
  group->allgather_into_tensor_coalesced(outputs, inputs)->wait();
  EXPECT_TENSORS_EQUAL(outputs, expected);
}

}  // namespace
}  // namespace distrun
