// Splits a tensor into one part per rank, for backends that accept lists.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

namespace distrun::internal {

// Views of `whole`, for a backend to write to. Throws unless it is contiguous and as large as
// `ranks` tensors like `one`.
inline std::vector<at::Tensor> rows_of(const at::Tensor& whole, const at::Tensor& one, int ranks) {
  TORCH_CHECK_VALUE(
      whole.defined() && whole.is_contiguous() && whole.numel() == ranks * one.numel(),
      "the output has sizes ", whole.defined() ? whole.sizes() : at::IntArrayRef(),
      "; expected a contiguous tensor with ", ranks * one.numel(), " elements");
  const at::AutoDispatchBelowADInplaceOrView guard;  // Autograd allows no writes to some views.
  std::vector<at::Tensor> rows;
  for (const at::Tensor& row : whole.view({ranks, one.numel()}).unbind(0)) {
    rows.push_back(row.view(one.sizes()));
  }
  return rows;
}

}  // namespace distrun::internal
