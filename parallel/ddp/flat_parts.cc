#include "parallel/ddp/flat_parts.h"

#include <cstdint>

namespace distrun::internal {

std::vector<at::Tensor> parts_like(const at::Tensor& flat,
                                   const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> parts;
  parts.reserve(parameters.size());
  std::int64_t offset = 0;
  for (const at::Tensor& one : parameters) {
    const at::Tensor part = flat.narrow(0, offset, one.numel());
    offset += one.numel();
    parts.push_back(one.is_non_overlapping_and_dense()
                        ? part.as_strided(one.sizes(), one.strides(), part.storage_offset())
                        : part.view(one.sizes()));
  }
  return parts;
}

}  // namespace distrun::internal
