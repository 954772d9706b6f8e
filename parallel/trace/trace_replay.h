// Replays a graph (distrun/trace.h).
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "distrun/trace_graph.h"

namespace distrun::internal {

std::vector<at::Tensor> replay(const Graph& graph, const std::vector<at::Tensor>& inputs);

// Throws c10::ValueError if an input is undefined or two share memory.
void check_inputs(const char* function, const std::vector<at::Tensor>& inputs);

}  // namespace distrun::internal
