// Prints a graph like torch.fx. Pure.
//
//     graph():
//         %arg0_1 : [num_users=1] = placeholder[target=arg0_1]
//         %mul : [num_users=1] = call_function[target=torch.ops.aten.mul.Scalar](args = …)
//         return (mul,)
#pragma once

#include <string>

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type_base.h>

#include "distrun/trace_graph.h"

namespace distrun::internal {

std::string text_of(const Graph& graph);

// Prints a literal without tensors: "2", "torch.float32", "[1, 2]", "None". `type` is from the
// operator's schema.
std::string text_of(const c10::IValue& literal, const c10::Type& type);

}  // namespace distrun::internal
