// The tensors of a module, and the units that they belong to.
#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include "distrun/fsdp_module.h"

namespace distrun::internal {

struct ModuleTensor {
  std::string name;  // Without the components of units.
  at::Tensor tensor;
  bool is_parameter = true;
  FsdpModule* unit = nullptr;    // The innermost unit that contains it; null if none does.
  const Group* parts = nullptr;  // If it is a part of a larger one: the ranks of all parts.
};

// Parameters and buffers in the order of Python's named_modules(): a module's own, then its
// children's. A tensor that occurs twice is listed twice. Leaves out undefined tensors.
std::vector<ModuleTensor> tensors_of(torch::nn::Module& module);

// The units within `module`, which may be one itself, from the innermost to the outermost, each
// once.
std::vector<FsdpModule*> units_of(torch::nn::Module& module);

}  // namespace distrun::internal
