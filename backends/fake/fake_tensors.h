// Counts, compares and writes tensors of the backend "fake".
//
// Callers turn autograd off, so that it does not see the writes.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace distrun::internal {

// Bytes on a network, including the indices of sparse tensors.
std::int64_t bytes_of(const at::Tensor& tensor);
std::int64_t bytes_of(const std::vector<at::Tensor>& tensors);

// Throw c10::Error, which names the operation, if dtypes differ; check_like() also if sizes differ.
void check_dtype(const char* name, const at::Tensor& one, const at::Tensor& other);
void check_like(const char* name, const at::Tensor& one, const at::Tensor& other);

// Copies the elements of `from` in order, repeated until `to` is full; zeros if `from` is empty.
void write_repeated(const at::Tensor& to, const at::Tensor& from);

// Views along the first dimension with these sizes, or `count` equal views.
std::vector<at::Tensor> parts_of(const at::Tensor& tensor, const std::vector<std::int64_t>& sizes,
                                 int count);

}  // namespace distrun::internal
