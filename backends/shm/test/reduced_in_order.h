// For tests: reductions by LibTorch's operators, applied to the tensors one after the other.
#pragma once

#include <cstddef>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

namespace distrun::shm {

using RedOpType = c10d::ReduceOp::RedOpType;

inline bool is_reduction_defined(at::ScalarType dtype, RedOpType op) {
  const bool is_whole = at::isIntegralType(dtype, /*includeBool=*/true);
  switch (op) {
    case RedOpType::SUM:
      return true;
    case RedOpType::AVG:
      return dtype != at::kBool;
    case RedOpType::BAND:
    case RedOpType::BOR:
    case RedOpType::BXOR:
      return is_whole;
    default:
      return !at::isComplexType(dtype);
  }
}

inline at::Tensor reduced(RedOpType op, const at::Tensor& a, const at::Tensor& b) {
  const bool is_bool = a.scalar_type() == at::kBool;
  switch (op) {
    case RedOpType::PRODUCT:
      return a * b;
    case RedOpType::MIN:
      return is_bool ? at::logical_and(a, b) : at::minimum(a, b);
    case RedOpType::MAX:
      return is_bool ? at::logical_or(a, b) : at::maximum(a, b);
    case RedOpType::BAND:
      return at::bitwise_and(a, b);
    case RedOpType::BOR:
      return at::bitwise_or(a, b);
    case RedOpType::BXOR:
      return at::bitwise_xor(a, b);
    default:
      return a + b;
  }
}

// Small types are combined as float, and rounded once.
inline at::ScalarType type_of_sums(at::ScalarType dtype) {
  if (dtype == at::kHalf || dtype == at::kBFloat16) return at::kFloat;
  return dtype == at::kComplexHalf ? at::kComplexFloat : dtype;
}

inline at::Tensor reduced_in_order(RedOpType op, const std::vector<at::Tensor>& tensors) {
  const at::ScalarType dtype = tensors[0].scalar_type();
  at::Tensor all = tensors[0].to(type_of_sums(dtype));
  for (std::size_t i = 1; i < tensors.size(); ++i) {
    all = reduced(op, all, tensors[i].to(type_of_sums(dtype)));
  }
  const auto count = static_cast<double>(tensors.size());
  if (op == RedOpType::AVG && all.is_complex()) {
    all = at::view_as_complex(at::view_as_real(all) / count);  // Divides both parts.
  } else if (op == RedOpType::AVG) {
    const bool is_whole = at::isIntegralType(dtype, /*includeBool=*/false);
    all = is_whole ? at::div(all, static_cast<std::int64_t>(tensors.size()), "trunc") : all / count;
  }
  return all.to(dtype);
}

}  // namespace distrun::shm
