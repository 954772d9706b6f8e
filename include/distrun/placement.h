// Layouts of a tensor over the ranks of a mesh (device_mesh.h).
//
//     namespace tensor = distrun::tensor;
//     const tensor::Placement rows = tensor::Shard(0);
//
// The namespace tensor, as in Python, separates Shard from the Shard of sharded_tensor.h.
// PyTorch source: torch/distributed/tensor/placement_types.py.
#pragma once

#include <cstdint>
#include <variant>

namespace distrun::tensor {

// Each rank has the whole tensor.
struct Replicate {
  friend bool operator==(const Replicate&, const Replicate&) = default;
};

// Each rank has an equal part along a dimension.  A negative dimension counts from the end.
struct Shard {
  // The layout with parts along this dimension.
  explicit Shard(std::int64_t dimension) : dim(dimension) {}
  friend bool operator==(const Shard&, const Shard&) = default;

  std::int64_t dim;  // The dimension along which ranks have parts.
};

// The layout of a tensor.
using Placement = std::variant<Replicate, Shard>;

}  // namespace distrun::tensor
