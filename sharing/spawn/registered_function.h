#pragma once

#include <string>

#include "distrun/spawn_function.h"

namespace distrun::internal {

// Throws c10::ValueError unless exactly one function has this name.
const SpawnFunction& registered_function(const std::string& name);

}  // namespace distrun::internal
