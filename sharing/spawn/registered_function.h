#pragma once

#include <string>

#include "distrun/spawn_function.h"

namespace distrun::internal {

// Throws c10::ValueError where none has that name, or several have.
const SpawnFunction& registered_function(const std::string& name);

}  // namespace distrun::internal
