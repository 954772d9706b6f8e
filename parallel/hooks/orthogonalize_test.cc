#include "parallel/hooks/orthogonalize.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/norm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/utils.h>

namespace distrun::internal {
namespace {

at::Tensor products_of_columns(const at::Tensor& matrices) {
  return at::bmm(matrices.transpose(1, 2), matrices);
}

TEST(OrthogonalizeTest, MakesColumnsOrthogonalAndOfLengthOne) {
  torch::manual_seed(1);
  for (const auto dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    const double close = dtype == at::kHalf ? 1e-2 : dtype == at::kBFloat16 ? 5e-2 : 1e-5;
    for (const int columns : {1, 2, 3, 5}) {
      const at::Tensor matrices = at::randn({2, 40, columns}, dtype);
      const at::Tensor before = matrices.clone();
      orthogonalize(matrices, 0);
      const at::Tensor products = products_of_columns(matrices).to(at::kDouble);
      const at::Tensor expected = at::eye(columns, at::kDouble).expand({2, columns, columns});
      EXPECT_TRUE(products.allclose(expected, close, close)) << dtype << columns << products;
      // The columns still span the same space.
      const at::Tensor q = matrices.to(at::kDouble);
      const at::Tensor m = before.to(at::kDouble);
      const at::Tensor projected = at::bmm(q, at::bmm(q.transpose(1, 2), m));
      EXPECT_TRUE(projected.allclose(m, 5 * close, 5 * close)) << dtype << columns;
    }
  }
}

TEST(OrthogonalizeTest, ChangesViewsOfAFlatTensorInPlace) {
  torch::manual_seed(1);
  for (const int columns : {2, 4}) {
    const at::Tensor flat = at::randn({2 + 8 * columns});
    const at::Tensor ends = at::cat({flat.narrow(0, 0, 1), flat.narrow(0, 1 + 8 * columns, 1)});
    const at::Tensor matrices = flat.narrow(0, 1, 8 * columns).view({1, 8, columns});
    orthogonalize(matrices, 0);
    const at::Tensor in_flat = flat.narrow(0, 1, 8 * columns).view({1, 8, columns});
    EXPECT_TRUE(products_of_columns(in_flat)[0].allclose(at::eye(columns), 1e-5, 1e-5));
    EXPECT_TRUE(ends.equal(at::cat({flat.narrow(0, 0, 1), flat.narrow(0, 1 + 8 * columns, 1)})));
  }
}

TEST(OrthogonalizeTest, LeavesAColumnOfZeros) {
  const at::Tensor matrices = at::zeros({1, 4, 2});
  matrices.select(2, 1).fill_(3);
  orthogonalize(matrices, 0);
  EXPECT_TRUE(matrices.select(2, 0).equal(at::zeros({1, 4}))) << matrices;
  EXPECT_TRUE(matrices.select(2, 1).allclose(at::full({1, 4}, 0.5))) << matrices;
}

TEST(OrthogonalizeTest, AddsEpsilonToTheLength) {
  const at::Tensor matrices = at::ones({1, 4, 1});
  orthogonalize(matrices, 2);
  EXPECT_TRUE(matrices.allclose(at::full({1, 4, 1}, 0.25))) << matrices;  // 1 / (2 + 2)
}

TEST(ReviveZeroMatricesTest, ReplacesOnlyMatricesOfZeros) {
  const at::Tensor matrices = at::zeros({2, 3, 2});
  matrices[1][2][1] = 1e-30;
  const at::Tensor second = matrices[1].clone();
  revive_zero_matrices(matrices);
  EXPECT_TRUE(matrices[0].equal(at::eye(3, 2))) << matrices;
  EXPECT_TRUE(matrices[1].equal(second)) << matrices;
}

}  // namespace
}  // namespace distrun::internal
