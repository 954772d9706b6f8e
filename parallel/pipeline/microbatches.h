// Splits a batch into micro-batches along dimension 0, and puts their results together.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace distrun::internal {

using TensorList = std::vector<at::Tensor>;

// Returns `count` views. If `count` does not divide the size, the first ones have one more element,
// as in Python. `name` is for the message.
//
// Throws: c10::ValueError if the tensor is undefined, has no dimension, or is too small.
TensorList split_batch(const std::string& name, const at::Tensor& batch, int count);

// The same for several tensors: element i of the result has part i of each.
std::vector<TensorList> split_batches(const std::string& name, const TensorList& batches,
                                      int count);

// Concatenates part i of each list along dimension 0. Tensors without dimensions are stacked.
TensorList merge_batches(const std::vector<TensorList>& parts);

}  // namespace distrun::internal
