#include "backends/fake/fake_tensors.h"

#include <c10/util/Exception.h>

namespace distrun::internal {

std::int64_t bytes_of(const at::Tensor& tensor) {
  if (tensor.layout() == at::kSparse) {
    return bytes_of(tensor._indices()) + bytes_of(tensor._values());
  }
  return tensor.numel() * static_cast<std::int64_t>(tensor.itemsize());
}

std::int64_t bytes_of(const std::vector<at::Tensor>& tensors) {
  std::int64_t sum = 0;
  for (const at::Tensor& one : tensors) sum += bytes_of(one);
  return sum;
}

void check_dtype(const char* name, const at::Tensor& one, const at::Tensor& other) {
  TORCH_CHECK(one.scalar_type() == other.scalar_type(), name,
              ": tensors differ in dtype: ", one.scalar_type(), " and ", other.scalar_type());
}

void check_like(const char* name, const at::Tensor& one, const at::Tensor& other) {
  check_dtype(name, one, other);
  TORCH_CHECK(one.sizes() == other.sizes(), name, ": tensors differ in size: ", one.sizes(),
              " and ", other.sizes());
}

void write_repeated(const at::Tensor& to, const at::Tensor& from) {
  if (to.numel() == 0) return;
  if (from.numel() == 0) {
    to.zero_();
    return;
  }
  if (to.numel() == from.numel()) {
    to.copy_(from.reshape(to.sizes()));
    return;
  }
  const std::int64_t times = (to.numel() + from.numel() - 1) / from.numel();
  to.copy_(from.reshape({-1}).repeat({times}).narrow(0, 0, to.numel()).view(to.sizes()));
}

std::vector<at::Tensor> parts_of(const at::Tensor& tensor, const std::vector<std::int64_t>& sizes,
                                 int count) {
  if (!sizes.empty()) return tensor.split_with_sizes(sizes);
  const std::vector<std::int64_t> equal(static_cast<std::size_t>(count), tensor.size(0) / count);
  return tensor.split_with_sizes(equal);
}

}  // namespace distrun::internal
