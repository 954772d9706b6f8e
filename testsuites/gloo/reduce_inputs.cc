#include "testsuites/gloo/reduce_inputs.h"

#include <cstdint>

#include <ATen/ATen.h>

namespace distrun {

namespace {

using c10d::ReduceOp;

at::Tensor number(double value) { return at::full({1}, value, at::kFloat); }
at::Tensor bits(int value) { return at::full({1}, value, at::kInt); }

double factorial(int n) { return n <= 1 ? 1 : n * factorial(n - 1); }

// Combines `count` numbers: first, first + 1, …
template <class Combine>
int fold(int first, int count, Combine combine) {
  int all = 0;
  for (int i = first; i < first + count; ++i) all = combine(all, i);
  return all;
}
int bit_or(int first, int count) {
  return fold(first, count, [](int a, int b) { return a | b; });
}
int bit_xor(int first, int count) {
  return fold(first, count, [](int a, int b) { return a ^ b; });
}

// In BAND's cases, rank 0 has only the bit that all ranks have, so the result is not zero.
void add_bit_cases(std::vector<ReduceCase>& cases, int rank, int world_size) {
  for (int i = 0; i < 4; ++i) {
    cases.push_back({ReduceOp::BAND, bits(rank | (1 << i)), bits(1 << i)});
  }
  // Each rank represents i ranks of a larger world.
  for (int i = 1; i < 5; ++i) {
    cases.push_back({ReduceOp::BOR, bits(bit_or(rank * i, i)), bits(bit_or(0, world_size * i))});
  }
  for (int i = 1; i < 5; ++i) {
    cases.push_back({ReduceOp::BXOR, bits(bit_xor(rank * i, i)), bits(bit_xor(0, world_size * i))});
  }
}

struct SparseShape {
  int sparse_dims, dense_dims;
};

// rank + 1 rows of ones. All ranks have row 0, so some elements are summed.
at::Tensor sparse_ones(int rank, int world_size, SparseShape shape) {
  const int rows = rank + 1;
  at::Tensor indices = at::zeros({shape.sparse_dims, rows}, at::kLong);
  indices[0] = at::arange(rows);
  std::vector<std::int64_t> value_sizes = {rows}, sizes(shape.sparse_dims, world_size);
  value_sizes.insert(value_sizes.end(), shape.dense_dims, 2);
  sizes.insert(sizes.end(), shape.dense_dims, 2);
  return at::sparse_coo_tensor(indices, at::ones(value_sizes), sizes);
}

at::Tensor sparse_sum(int world_size, SparseShape shape) {
  at::Tensor sum = sparse_ones(0, world_size, shape);
  for (int rank = 1; rank < world_size; ++rank) sum = sum + sparse_ones(rank, world_size, shape);
  return sum;
}

}  // namespace

std::vector<ReduceCase> reduce_cases(int rank, int world_size) {
  const double n = world_size;
  std::vector<ReduceCase> cases = {
      {ReduceOp::SUM, number(rank + 1), number(n * (n + 1) / 2)},
      {ReduceOp::PRODUCT, number(rank + 1), number(factorial(world_size))},
      {ReduceOp::MIN, number(rank + 1), number(1)},
      {ReduceOp::MAX, number(rank + 1), number(n)},
  };
  add_bit_cases(cases, rank, world_size);
  return cases;
}

std::vector<CoalescedReduceCase> coalesced_reduce_cases(int rank, int world_size) {
  const double r = rank, n = world_size;
  return {
      {ReduceOp::SUM,
       {number(r + 1), number((r + 1) * (r + 1))},
       {number(n * (n + 1) / 2), number(n * (n + 1) * (2 * n + 1) / 6)}},
      {ReduceOp::PRODUCT,
       {number(r + 1), number(r + 2)},
       {number(factorial(world_size)), number(factorial(world_size + 1))}},
      {ReduceOp::MIN, {number(r), number(r + 1)}, {number(0), number(1)}},
      {ReduceOp::MAX, {number(r + 1), number(r + 2)}, {number(n), number(n + 1)}},
  };
}

std::vector<MultiInputReduceCase> multi_input_reduce_cases(int rank, int world_size) {
  const double r = rank, n = world_size;
  return {
      {ReduceOp::SUM, {number(2 * r), number(2 * r + 1)}, number(n * (2 * n - 1))},
      {ReduceOp::PRODUCT,
       {number(2 * r + 1), number(2 * r + 2)},
       number(factorial(2 * world_size))},
      {ReduceOp::MIN, {number(2 * r + 1), number(2 * r + 2)}, number(1)},
      {ReduceOp::MAX, {number(2 * r + 1), number(2 * r + 2)}, number(2 * n)},
  };
}

std::vector<SparseReduceCase> sparse_reduce_cases(int rank, int world_size, int inputs_per_rank) {
  std::vector<SparseReduceCase> cases;
  const int tensors = inputs_per_rank * world_size;  // Each represents one rank.
  for (const SparseShape shape : {SparseShape{1, 0}, {2, 0}, {3, 0}, {1, 1}, {1, 2}, {1, 3}}) {
    SparseReduceCase made;
    for (int i = 0; i < inputs_per_rank; ++i) {
      made.inputs.push_back(sparse_ones(inputs_per_rank * rank + i, tensors, shape));
      made.expected.push_back(sparse_sum(tensors, shape));
    }
    cases.push_back(std::move(made));
  }
  return cases;
}

}  // namespace distrun
