#include "parallel/pipeline/microbatches.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>
#include <c10/util/Exception.h>

namespace distrun::internal {

TensorList split_batch(const std::string& name, const at::Tensor& batch, int count) {
  TORCH_CHECK_VALUE(batch.defined(), name, " is not defined");
  TORCH_CHECK_VALUE(batch.dim() > 0, name, " has no dimension; expected a batch along dimension 0");
  TORCH_CHECK_VALUE(batch.size(0) >= count, name, " has size ", batch.size(0),
                    " along dimension 0; expected at least ", count, ", one for each micro-batch");
  return batch.tensor_split(count, 0);
}

std::vector<TensorList> split_batches(const std::string& name, const TensorList& batches,
                                      int count) {
  std::vector<TensorList> parts(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const TensorList split = split_batch(name + "[" + std::to_string(i) + "]", batches[i], count);
    for (std::size_t k = 0; k < parts.size(); ++k) parts[k].push_back(split[k]);
  }
  return parts;
}

TensorList merge_batches(const std::vector<TensorList>& parts) {
  TensorList merged;
  for (std::size_t i = 0; !parts.empty() && i < parts.front().size(); ++i) {
    TensorList all;
    all.reserve(parts.size());
    for (const TensorList& one : parts) all.push_back(one.at(i));
    merged.push_back(all.front().dim() == 0 ? at::stack(all) : at::cat(all));
  }
  return merged;
}

}  // namespace distrun::internal
