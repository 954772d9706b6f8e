// Runs a graph again.  For the files of this folder; what it does: distrun/trace.h.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "distrun/trace_graph.h"

namespace distrun::internal {

std::vector<at::Tensor> replay(const Graph& graph, const std::vector<at::Tensor>& inputs);

// Throws c10::ValueError where they are not defined, or two of them share memory.
void check_inputs(const char* function, const std::vector<at::Tensor>& inputs);

}  // namespace distrun::internal
