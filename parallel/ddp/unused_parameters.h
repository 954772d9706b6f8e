// Rewrites LibTorch's error about parameters without a gradient, which gives advice for Python.
// Pure.
#pragma once

#include <optional>
#include <string>

#include "distrun/ddp_options.h"

namespace distrun::internal {

// "backward() computed no gradient of b1, b2: …"; nothing if `error` of c10d::Reducer is another
// one.
std::optional<std::string> advice_on_unused_parameters(const std::string& error,
                                                       const DdpOptions& options);

}  // namespace distrun::internal
