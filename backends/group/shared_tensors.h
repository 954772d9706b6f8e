// Tensors in memory that a group's backend reduces in place.
//
//     share_with_group(bucket, *group);  // Later, all_reduce() of the bucket copies nothing.
//
// Thread safety: no other thread may use the tensor meanwhile.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "distrun/result.h"

namespace distrun::internal {

// A backend that can reduce in place.
class SharesTensors {
 public:
  virtual ~SharesTensors() = default;
  // Moves the tensor's memory, so that addresses of its data become invalid; views remain valid.
  // The tensor is dense, on the CPU, and uses its whole storage.
  virtual Result<void> share(const at::Tensor& tensor) = 0;
};

// Does nothing if the group's backend reduces nothing in place, or if the tensor is not one that
// can be moved. Warns if it cannot allocate memory.
void share_with_group(const at::Tensor& tensor, c10d::ProcessGroup& group);

}  // namespace distrun::internal
