// Checks and describes the parameter groups of an optimizer.
#pragma once

#include <string>
#include <vector>

#include <torch/optim/optimizer.h>

#include "distrun/group.h"

namespace distrun::internal {

using ParamGroups = std::vector<torch::optim::OptimizerParamGroup>;

// Returns the first error of groups[first…] on this rank, or "".  `defaults` are those of the
// optimizer.
std::string error_in_groups(const ParamGroups& groups, std::size_t first,
                            const torch::optim::OptimizerOptions& defaults);

// A line for each parameter and each list of options in groups[first…].
std::string description_of_groups(const ParamGroups& groups, std::size_t first,
                                  bool with_strides = false);

// "torch::optim::AdamOptions lr 0.001, …"
std::string text_of_options(const torch::optim::OptimizerOptions& options);

// The text of an exception, without a stack trace.
std::string text_of_exception(const std::exception& error);

}  // namespace distrun::internal
