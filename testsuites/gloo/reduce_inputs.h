// Inputs and expected outputs of reductions: pure functions of rank and world size, from the tables
// of PyTorch's tests (simple_reduce_tests and others).
//
//     for (const auto& [op, input, expected] : reduce_cases(rank, size)) { … }
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

namespace distrun {

// One tensor per rank.  SUM, PRODUCT, MIN, MAX of floats; BAND, BOR, BXOR of int32.
struct ReduceCase {
  c10d::ReduceOp op;
  at::Tensor input;     // Of this rank.
  at::Tensor expected;  // On every rank.
};
std::vector<ReduceCase> reduce_cases(int rank, int world_size);

// Two tensors per rank, reduced separately.
struct CoalescedReduceCase {
  c10d::ReduceOp op;
  std::vector<at::Tensor> inputs;
  std::vector<at::Tensor> expected;  // One for each input.
};
std::vector<CoalescedReduceCase> coalesced_reduce_cases(int rank, int world_size);

// Two tensors per rank, reduced together.
struct MultiInputReduceCase {
  c10d::ReduceOp op;
  std::vector<at::Tensor> inputs;
  at::Tensor expected;  // For each input.
};
std::vector<MultiInputReduceCase> multi_input_reduce_cases(int rank, int world_size);

// Sums of sparse tensors with one to three sparse and up to three dense dimensions.
struct SparseReduceCase {
  std::vector<at::Tensor> inputs;
  std::vector<at::Tensor> expected;  // One for each input, all equal.
};
std::vector<SparseReduceCase> sparse_reduce_cases(int rank, int world_size, int inputs_per_rank);

}  // namespace distrun
