// Rewrites LibTorch's errors about a backward that has not ended: parameters lack gradients, and
// the advice is for Python, or backward() threw, and the error is an internal one. Pure.
#pragma once

#include <optional>
#include <string>

#include "distrun/ddp_options.h"

namespace distrun::internal {

// "the last backward() computed no gradient of b1, b2: …" or "the last backward() threw …"; empty
// for other errors.
std::optional<std::string> advice_on_unused_parameters(const std::string& error,
                                                       const DdpOptions& options);

}  // namespace distrun::internal
