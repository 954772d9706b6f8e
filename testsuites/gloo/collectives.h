// Collectives with lists of tensors by value, and their results.
//
//     const auto work = allreduce(group, {make(x)}, c10d::ReduceOp::MAX);
//     EXPECT_TENSORS_EQUAL(result_of(work), …);
//
// Each runs exactly one collective.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace distrun {

using TensorVector = std::vector<at::Tensor>;
using TensorVectors = std::vector<TensorVector>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

WorkPtr broadcast(c10d::Backend& group, TensorVector tensors, int root, int root_tensor = 0);
WorkPtr allreduce(c10d::Backend& group, TensorVector tensors,
                  c10d::ReduceOp op = c10d::ReduceOp::SUM);
WorkPtr allreduce_coalesced(c10d::Backend& group, TensorVector tensors,
                            c10d::ReduceOp op = c10d::ReduceOp::SUM);
WorkPtr reduce(c10d::Backend& group, TensorVector tensors, int root,
               c10d::ReduceOp op = c10d::ReduceOp::SUM, int root_tensor = 0);
WorkPtr allgather(c10d::Backend& group, TensorVectors outputs, TensorVector inputs);
WorkPtr allgather_coalesced(c10d::Backend& group, TensorVectors outputs, TensorVector inputs);
WorkPtr gather(c10d::Backend& group, TensorVectors outputs, TensorVector inputs, int root);
WorkPtr scatter(c10d::Backend& group, TensorVector outputs, TensorVectors inputs, int root);

// Wait for the collective and return its future's value: one or several lists of tensors, as given.
// Throw the collective's error.
TensorVector result_of(const WorkPtr& work);
TensorVectors results_of(const WorkPtr& work);

}  // namespace distrun
