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
  std::string name;  // Shown in messages, and used in DdpOptions::parameters_to_ignore.
  // This tensor must be a leaf.  If it does not require a gradient, DdpReducer never reduces it,
  // and only copies its values to all ranks, at construction and at the end of a Join.
  at::Tensor tensor;
  bool sparse_gradient = false;  // Whether its gradients are sparse (COO).
};

// A buffer of the model.
struct DdpBuffer {
  std::string name;   // Used in DdpOptions::parameters_to_ignore.
  at::Tensor tensor;  // An undefined tensor is ignored.
};

// The tensors of a model.
struct DdpModel {
  std::string name = "model";            // Shown in messages and in the logging data.
  std::vector<DdpParameter> parameters;  // At least one must require a gradient.
  // Returns the current buffers, because a module may replace its buffers.  DdpReducer calls this
  // function in its constructor, before each forward that broadcasts buffers, and at the end of a
  // Join.  Null: the model has no buffers.
  std::function<std::vector<DdpBuffer>()> buffers = nullptr;
};

}  // namespace distrun
