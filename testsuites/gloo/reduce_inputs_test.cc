#include "testsuites/gloo/reduce_inputs.h"

#include <cstddef>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace distrun {
namespace {

using c10d::ReduceOp;

at::Tensor combine(const ReduceOp& op, const at::Tensor& a, const at::Tensor& b) {
  switch (op) {
    case ReduceOp::SUM:
      return a + b;
    case ReduceOp::PRODUCT:
      return a * b;
    case ReduceOp::MIN:
      return at::minimum(a, b);
    case ReduceOp::MAX:
      return at::maximum(a, b);
    case ReduceOp::BAND:
      return at::bitwise_and(a, b);
    case ReduceOp::BOR:
      return at::bitwise_or(a, b);
    case ReduceOp::BXOR:
      return at::bitwise_xor(a, b);
    default:
      return {};
  }
}

at::Tensor reduced(const ReduceOp& op, const std::vector<at::Tensor>& inputs) {
  at::Tensor all = inputs[0];
  for (std::size_t i = 1; i < inputs.size(); ++i) all = combine(op, all, inputs[i]);
  return all;
}

class ReduceInputsTest : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(WorldSizes, ReduceInputsTest, ::testing::Values(2, 3, 4));

TEST_P(ReduceInputsTest, ExpectedValuesAreReductionsOfAllInputs) {
  const int n = GetParam();
  const auto cases = reduce_cases(0, n);
  EXPECT_EQ(cases.size(), 16u);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    std::vector<at::Tensor> inputs;
    for (int rank = 0; rank < n; ++rank) inputs.push_back(reduce_cases(rank, n)[i].input);
    EXPECT_TRUE(at::equal(reduced(cases[i].op, inputs), cases[i].expected)) << "case " << i;
  }
}

TEST_P(ReduceInputsTest, CoalescedTensorsAreReducedSeparately) {
  const int n = GetParam();
  const auto cases = coalesced_reduce_cases(0, n);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    for (const int j : {0, 1}) {
      std::vector<at::Tensor> inputs;
      for (int rank = 0; rank < n; ++rank) {
        inputs.push_back(coalesced_reduce_cases(rank, n)[i].inputs[j]);
      }
      EXPECT_TRUE(at::equal(reduced(cases[i].op, inputs), cases[i].expected[j])) << "case " << i;
    }
  }
}

TEST_P(ReduceInputsTest, SeveralInputsOfARankAreReducedTogether) {
  const int n = GetParam();
  const auto cases = multi_input_reduce_cases(0, n);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    std::vector<at::Tensor> inputs;
    for (int rank = 0; rank < n; ++rank) {
      const auto of_rank = multi_input_reduce_cases(rank, n)[i].inputs;
      inputs.insert(inputs.end(), of_rank.begin(), of_rank.end());
    }
    EXPECT_TRUE(at::equal(reduced(cases[i].op, inputs), cases[i].expected)) << "case " << i;
  }
}

TEST_P(ReduceInputsTest, SparseTensorsAreSummed) {
  const int n = GetParam();
  for (const int per_rank : {1, 2}) {
    const auto cases = sparse_reduce_cases(0, n, per_rank);
    EXPECT_EQ(cases.size(), 6u);
    for (std::size_t i = 0; i < cases.size(); ++i) {
      std::vector<at::Tensor> inputs;
      for (int rank = 0; rank < n; ++rank) {
        const auto of_rank = sparse_reduce_cases(rank, n, per_rank);
        for (const auto& input : of_rank[i].inputs) inputs.push_back(input.to_dense());
      }
      EXPECT_EQ(cases[i].expected.size(), std::size_t(per_rank));
      for (const auto& expected : cases[i].expected) {
        EXPECT_TRUE(at::equal(reduced(ReduceOp::SUM, inputs), expected.to_dense())) << "case " << i;
      }
    }
  }
}

}  // namespace
}  // namespace distrun
