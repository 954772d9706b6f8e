// Chooses the tensors of a model that take part in training, and synchronizes their values.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "distrun/ddp_model.h"

namespace distrun::internal {

// The model without ignored tensors. Each tensor occurs once, under its first name.
//
// Throws c10::ValueError if an ignored name does not exist, a parameter is undefined or not a leaf,
// no parameter requires a gradient, or parameters are on devices of several types.
DdpModel participants(DdpModel model, const std::set<std::string>& ignored);

// Sets the tensors to the values of group rank `source`. Requires detached tensors.
void broadcast_all(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                   const std::vector<at::Tensor>& tensors, int source = 0);

// Hides the change from autograd: an earlier forward that saved the buffers can still run its
// backward.
void broadcast_buffers(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                       const std::vector<DdpBuffer>& buffers, int source = 0);

}  // namespace distrun::internal
