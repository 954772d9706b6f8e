// Asks Python which version of PyTorch it has, without importing PyTorch.
//
//     torch_version(environment)       // "2.13.0+cu130"
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "common/os/environment.h"

namespace distrun {

inline constexpr std::chrono::milliseconds kTorchVersionMax = std::chrono::seconds(2);

// Of the Python that runs the workers: PYTHON_EXEC or python3. Empty without Python or PyTorch;
// nullopt if Python does not answer in time.
std::optional<std::string> torch_version(const Environment& environment,
                                         std::chrono::milliseconds limit = kTorchVersionMax);

}  // namespace distrun
