// Splits a tensor into one part for each rank, for backends that accept lists.  For the files of
// this folder and of those above it.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace distrun::internal {

// Views of `whole`, which is contiguous and has as many elements as `ranks` tensors like `one`.
inline std::vector<at::Tensor> rows_of(const at::Tensor& whole, const at::Tensor& one, int ranks) {
  std::vector<at::Tensor> rows;
  for (const at::Tensor& row : whole.view({ranks, one.numel()}).unbind(0)) {
    rows.push_back(row.view(one.sizes()));
  }
  return rows;
}

}  // namespace distrun::internal
