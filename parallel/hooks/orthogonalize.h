// Makes the columns of matrices orthogonal and of length 1.
#pragma once

#include <ATen/core/Tensor.h>

namespace distrun::internal {

// Changes `matrices` in place.  They have sizes [batch, rows, columns], with columns <= rows.
// `epsilon` is added to the length of a column.  A column of zeros stays zero.
//
// Uses QR for more than two columns, and the Gram-Schmidt process for fewer and for float16 and
// bfloat16, which QR does not support.
void orthogonalize(const at::Tensor& matrices, double epsilon);

// Replaces each matrix of zeros by the first columns of the identity matrix.  Others do not change.
void revive_zero_matrices(const at::Tensor& matrices);

}  // namespace distrun::internal
