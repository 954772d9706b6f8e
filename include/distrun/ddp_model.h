// DdpModel describes a model as lists of named tensors.  The constructor of DdpReducer takes a
// DdpModel (ddp_reducer.h).
//
//     DdpModel model{.name = "Net", .parameters = {{"w", w}, {"b", b}}};
//     model.buffers = [&] { return std::vector<DdpBuffer>{{"mean", mean}}; };
//
// For a torch::nn::Module, ddp_model() creates a DdpModel (distributed_data_parallel.h).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace distrun {

// A parameter of the model.
struct DdpParameter {
  std::string name;  // For messages and DdpOptions::parameters_to_ignore.
  // The tensor must be a leaf.  If it does not require a gradient, no gradient is reduced for it.
  // Its values are still copied to all ranks at construction and at the end of a Join (join.h).
  at::Tensor tensor;
  bool sparse_gradient = false;  // Whether the gradients of the tensor are sparse (COO).
};

// A buffer of the model.
struct DdpBuffer {
  std::string name;   // For DdpOptions::parameters_to_ignore.
  at::Tensor tensor;  // An undefined tensor is ignored.
};

// The tensors of a model.
struct DdpModel {
  std::string name = "model";            // For messages and for the logging data.
  std::vector<DdpParameter> parameters;  // At least one of them must require a gradient.
  // A function that returns the model's current buffers.  (A module may replace its buffers.)
  // DdpReducer calls this function in its constructor, before each forward that broadcasts buffers,
  // and at the end of a Join.  If the function is null, the model has no buffers.
  std::function<std::vector<DdpBuffer>()> buffers = nullptr;
};

}  // namespace distrun
