// Frees and allocates the memory of a tensor's storage, which stays the same object, so that views
// of it stay valid. As UntypedStorage.resize_() in Python, but without the old contents.
#pragma once

#include <ATen/core/Tensor.h>

namespace distrun::internal {

// Allocates memory for the tensor, which must use its whole storage.
void allocate_memory(const at::Tensor& tensor);

// Nothing may use the memory any more.
void free_memory(const at::Tensor& tensor);

}  // namespace distrun::internal
