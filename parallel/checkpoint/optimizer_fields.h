// The state that an optimizer of LibTorch keeps for a parameter, by the names of Python's
// state_dict().
//
// Thread safety: one thread at a time for each optimizer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

namespace distrun::internal {

// One of the two pointers is set. Both are valid while the optimizer keeps its state.
struct OptimizerField {
  std::string name;              // "exp_avg"
  at::Tensor* tensor = nullptr;  // May be undefined.
  std::int64_t* number = nullptr;
};

// The fields for a parameter; none if the optimizer has none yet, and `creates` is false. Empty if
// the class of the optimizer is not known; SGD, Adam, AdamW, RMSprop and Adagrad are.
std::optional<std::vector<OptimizerField>> fields_of(torch::optim::Optimizer& optimizer,
                                                     const at::Tensor& parameter, bool creates);

}  // namespace distrun::internal
