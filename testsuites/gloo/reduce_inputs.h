// What ranks reduce in the tests, and what comes out: pure functions of rank and world size.
//
//     for (const auto& [op, input, expected] : reduce_cases(rank, size)) { … }
//
// The tables of PyTorch's tests: simple_reduce_tests and its sisters.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

namespace distrun {

// One tensor of each rank.  Every op: SUM, PRODUCT, MIN, MAX of floats, BAND, BOR, BXOR of int32.
struct ReduceCase {
  c10d::ReduceOp op;
  at::Tensor input;     // This rank's.
  at::Tensor expected;  // On every rank.
};
std::vector<ReduceCase> reduce_cases(int rank, int world_size);

// Two tensors of each rank, that are reduced apart from each other.
struct CoalescedReduceCase {
  c10d::ReduceOp op;
  std::vector<at::Tensor> inputs;
  std::vector<at::Tensor> expected;  // As many.
};
std::vector<CoalescedReduceCase> coalesced_reduce_cases(int rank, int world_size);

// Two tensors of each rank, that are reduced together.
struct MultiInputReduceCase {
  c10d::ReduceOp op;
  std::vector<at::Tensor> inputs;
  at::Tensor expected;  // In each of them.
};
std::vector<MultiInputReduceCase> multi_input_reduce_cases(int rank, int world_size);

// Sparse tensors, which are summed: of one to three sparse and up to three dense dimensions.
struct SparseReduceCase {
  std::vector<at::Tensor> inputs;
  std::vector<at::Tensor> expected;  // As many, all the same.
};
std::vector<SparseReduceCase> sparse_reduce_cases(int rank, int world_size, int inputs_per_rank);

}  // namespace distrun
