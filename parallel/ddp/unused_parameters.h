// Rewrites LibTorch's error about parameters without a gradient, whose advice is for Python. Pure.
#pragma once

#include <optional>
#include <string>

#include "distrun/ddp_options.h"

namespace distrun::internal {

// "the last backward() computed no gradient of b1, b2: …"; empty for other errors.
std::optional<std::string> advice_on_unused_parameters(const std::string& error,
                                                       const DdpOptions& options);

}  // namespace distrun::internal
