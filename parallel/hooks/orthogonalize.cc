#include "parallel/hooks/orthogonalize.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/norm.h>
#include <c10/util/Exception.h>

namespace distrun::internal {

namespace {

void gram_schmidt(const at::Tensor& matrices, double epsilon) {
  const int64_t columns = matrices.size(2);
  for (int64_t i = 0; i < columns; ++i) {
    const at::Tensor column = matrices.narrow(2, i, 1);
    const at::Tensor length = at::norm(column, 2, {1}, /*keepdim=*/true);
    // Divides a column of zeros by 1: 0 / 0 would be NaN on all ranks from then on.
    column.div_(epsilon == 0 ? length.masked_fill(length == 0, 1) : length + epsilon);
    if (i + 1 == columns) return;
    const at::Tensor rest = matrices.narrow(2, i + 1, columns - i - 1);
    rest.sub_((column * rest).sum({1}, /*keepdim=*/true) * column);
  }
}

}  // namespace

void orthogonalize(const at::Tensor& matrices, double epsilon) {
  TORCH_INTERNAL_ASSERT(matrices.dim() == 3 && matrices.size(2) <= matrices.size(1));
  const int64_t batch = matrices.size(0);
  const int64_t columns = matrices.size(2);
  const auto dtype = matrices.scalar_type();
  if (columns <= 2 || dtype == at::kHalf || dtype == at::kBFloat16) {
    gram_schmidt(matrices, epsilon);
    return;
  }
  at::Tensor q = matrices;
  at::Tensor r = at::empty({batch, columns, columns}, matrices.options());
  at::linalg_qr_out(q, r, matrices);
}

void revive_zero_matrices(const at::Tensor& matrices) {
  const at::Tensor is_zero = matrices.abs().amax({1, 2}, /*keepdim=*/true) == 0;
  const at::Tensor identity = at::eye(matrices.size(1), matrices.size(2), matrices.options());
  matrices.add_(identity * is_zero.to(matrices.scalar_type()));
}

}  // namespace distrun::internal
