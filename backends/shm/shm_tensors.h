// Tensors as bytes, for the backend shm.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include "backends/shm/host/reduction.h"

namespace distrun::shm {

// How to reduce the tensor's elements. Throws c10::ValueError, which names the call, if the backend
// cannot.
Reducing reducing(const char* call, const at::Tensor& tensor, const c10d::ReduceOp& op);

// The same; nullopt if the backend cannot.
std::optional<Reducing> find_reducing(const at::Tensor& tensor, const c10d::ReduceOp& op);

// A tensor, or a contiguous copy of it.
class DenseTensor {
 public:
  explicit DenseTensor(const at::Tensor& tensor);

  std::byte* data() const { return static_cast<std::byte*>(dense_.data_ptr()); }
  std::size_t bytes() const { return dense_.nbytes(); }
  std::size_t numel() const { return static_cast<std::size_t>(dense_.numel()); }
  // The bytes of one of `count` equal parts.
  std::byte* part(int index, int count) const {
    return data() + bytes() / static_cast<std::size_t>(count) * static_cast<std::size_t>(index);
  }

  // Copies what was written to the tensor, if it is not the same memory.
  void write_back() const;

 private:
  at::Tensor tensor_;
  at::Tensor dense_;
};

// Throws c10::ValueError unless it is in the memory of the CPU.
void check_cpu(const char* call, const at::Tensor& tensor);
// The same, and unless it is dense.
void check_dense(const char* call, const at::Tensor& tensor);

// Throws c10::ValueError if several elements share memory.
void check_writable(const char* call, const at::Tensor& tensor);

}  // namespace distrun::shm
