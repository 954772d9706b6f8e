// What is the same for every model that ranks train together: which of its tensors take part, and
// how the ranks come to have the same.  For ddp_core.cc, ddp_join_hook.cc and ddp_reducer.cc.
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

// The model without what is ignored, and each tensor once, under its first name.
//
// Throws c10::ValueError where a name to ignore is none, a parameter is undefined or no leaf, no
// parameter requires a gradient, or parameters lie on devices of several types.
DdpModel participants(DdpModel model, const std::set<std::string>& ignored);

// Gives the tensors the values that rank `source` of the group has.  Views of parameters and
// buffers, not what autograd records.
void broadcast_all(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                   const std::vector<at::Tensor>& tensors, int source = 0);

// Of a forward that is not yet backward's the buffers are still needed as they were: to autograd
// they are the same after this.
void broadcast_buffers(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                       const std::vector<DdpBuffer>& buffers, int source = 0);

}  // namespace distrun::internal
