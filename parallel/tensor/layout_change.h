// Changes of layout as autograd functions: a collective in forward, and another in backward.
//
//     change_layout(x, {LayoutOp::kIdentity}, {LayoutOp::kAllReduce}, group);
//
// Unlike in functional.h, ranks compute one loss together: the gradient of a replicated tensor is
// the same on each rank, and is not summed.
// PyTorch source: torch/distributed/tensor/_redistribute.py.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "distrun/group.h"
#include "distrun/placement.h"

namespace distrun::internal {

struct LayoutOp {
  enum Kind {
    kIdentity,
    kAllReduce,      // Partial sums become their sum.
    kAllGather,      // Parts along `dim` become the whole.
    kReduceScatter,  // Partial sums become parts of their sum along `dim`.
    kSlice,          // The whole becomes this rank's part along `dim`.
  };
  Kind kind = kIdentity;
  std::int64_t dim = 0;
};

// Throws c10::ValueError if the number of ranks does not divide the size along the dimension.
at::Tensor apply_layout_op(const at::Tensor& tensor, const LayoutOp& op, const Group& group);

at::Tensor change_layout(const at::Tensor& tensor, const LayoutOp& forward,
                         const LayoutOp& backward, const Group& group);

// From one layout to another. The gradient of a replicated tensor is replicated.
at::Tensor redistribute(const at::Tensor& tensor, const tensor::Placement& from,
                        const tensor::Placement& to, const Group& group);
// From a layout to the whole, from which each rank computes a part: the gradient is a partial sum.
at::Tensor replicate_for_parts(const at::Tensor& tensor, const tensor::Placement& from,
                               const Group& group);
// From partial sums to a layout.
at::Tensor sum_to(const at::Tensor& partial, const tensor::Placement& to, const Group& group);

}  // namespace distrun::internal
