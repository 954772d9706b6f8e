// How the backend "fake" counts, compares and writes tensors.  For the files of this folder.
//
// Writing is past autograd if the caller is (fake_collectives.cc).
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace distrun::internal {

// What it would be on a network; of a sparse tensor the indices and values.
std::int64_t bytes_of(const at::Tensor& tensor);
std::int64_t bytes_of(const std::vector<at::Tensor>& tensors);

// `name`: the operation's.  Throw c10::Error where they are of different dtypes, and where they are
// of different dtypes or sizes.
void check_dtype(const char* name, const at::Tensor& one, const at::Tensor& other);
void check_like(const char* name, const at::Tensor& one, const at::Tensor& other);

// The numbers of `from` in their order, and from the first again where there is place for more;
// zeros where it has none.
void write_repeated(const at::Tensor& to, const at::Tensor& from);

// Views along the first dimension: of these sizes, or without sizes `count` equal ones.
std::vector<at::Tensor> parts_of(const at::Tensor& tensor, const std::vector<std::int64_t>& sizes,
                                 int count);

}  // namespace distrun::internal
