// LibTorch's error about parameters without a gradient advises in Python's words.  This is the same
// in C++'s.  Pure.
#pragma once

#include <optional>
#include <string>

#include "distrun/ddp_options.h"

namespace distrun::internal {

// "backward() computed no gradient of b1, b2: …"; nothing if `error`, which c10d::Reducer threw,
// reports something else.
std::optional<std::string> advice_on_unused_parameters(const std::string& error,
                                                       const DdpOptions& options);

}  // namespace distrun::internal
