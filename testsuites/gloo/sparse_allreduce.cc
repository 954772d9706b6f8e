#include <cstdint>

#include <ATen/ATen.h>

#include "distrun/testing/tensors.h"
#include "distrun/testing/throws.h"
#include "testsuites/gloo/collectives.h"
#include "testsuites/gloo/process_group_gloo_fixture.h"
#include "testsuites/gloo/reduce_inputs.h"

namespace distrun {
namespace {

at::Tensor sparse_vector(std::int64_t size) {
  return at::sparse_coo_tensor(at::zeros({1, 1}, at::kLong), at::ones({1}, at::kLong), {size});
}

DISTRIBUTED_TEST(gloo, ProcessGroupGlooTest, test_sparse_allreduce_checks, {.ranks = 4}) {
  using c10d::ReduceOp;
  const auto group = create_gloo();
  const at::Tensor dense = at::zeros({1}), two = sparse_vector(2), four = sparse_vector(4);

  EXPECT_THROWS_WITH(allreduce(*group, {}), c10::Error, "requires non-empty tensor list");
  EXPECT_THROWS_WITH(allreduce(*group, {dense, two}), c10::Error, "invalid tensor layout");
  EXPECT_THROWS_WITH(allreduce(*group, {two, four}), c10::Error, "invalid tensor size");
  for (const auto op : {ReduceOp::PRODUCT, ReduceOp::MIN, ReduceOp::MAX}) {
    EXPECT_THROWS_WITH(allreduce(*group, {four}, op), c10::Error,
                       "unsupported reduction operation");
  }
}

void sparse_allreduce_basics(c10d::Backend& group, MakeTensor make) {
  for (const int inputs_per_rank : {1, 2}) {
    for (const auto& [inputs, expected] :
         sparse_reduce_cases(group.getRank(), group.getSize(), inputs_per_rank)) {
      TensorVector tensors, made;
      for (const auto& input : inputs) tensors.push_back(make(input));
      for (const auto& tensor : expected) made.push_back(make(tensor));
      const TensorVector result = result_of(allreduce(group, tensors));
      EXPECT_TENSORS_EQUAL(tensors, made);  // In place.
      EXPECT_TENSORS_EQUAL(result, made);
    }
  }
}

DISTRIBUTED_TEST(gloo, ProcessGroupGlooTest, test_sparse_allreduce_basics, {.ranks = 4}) {
  sparse_allreduce_basics(*create_gloo(), on_cpu);
}

DISTRIBUTED_TEST(gloo, ProcessGroupGlooTest, test_sparse_allreduce_basics_cuda,
                 {.ranks = 4, .min_gpus = 1}) {
  sparse_allreduce_basics(*create_gloo(), on_cuda);
}

DISTRIBUTED_TEST(gloo, ProcessGroupGlooTest, test_sparse_allreduce_cuda_dispatched,
                 {.ranks = 4, .min_gpus = 1}) {
  const auto group = create_process_group();
  for (const auto& [inputs, expected] : sparse_reduce_cases(rank(), world_size(), 1)) {
    TensorVector tensors = {on_cuda(inputs[0])};
    group->allreduce(tensors)->wait();
    EXPECT_TENSORS_EQUAL(tensors[0], on_cuda(expected[0]));
  }
}

}  // namespace
}  // namespace distrun
