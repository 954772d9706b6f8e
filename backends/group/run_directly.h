// Runs a collective by the backend's DirectCalls, if it is a plain one.
//
//     if (ran_directly(site, async_op, {.output = &tensor}, [&](auto& its, auto begin) {
//           return its.all_reduce_now(tensor, op, begin);
//         })) {
//       return {};
//     }
//     … the same through c10d …
//
// Whatever needs more, such as a profiler or a tensor with strides, goes through c10d.
#pragma once

#include <optional>

#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>

#include "backends/group/collective_checks.h"
#include "backends/group/direct_calls.h"

namespace distrun::internal {

// Those that the collective has.
struct DirectTensors {
  const at::Tensor* output = nullptr;
  const at::Tensor* input = nullptr;
  bool writes_output = true;
  std::optional<int> root = std::nullopt;
};

// False: nothing was done, as for a rank that is not in the group, or if there is none. Errors are
// those of run_collective().
bool ran_directly(const CallSite& site, bool async_op, const DirectTensors& tensors,
                  c10::function_ref<bool(DirectCalls&, DirectCalls::Begin)> act);

}  // namespace distrun::internal
