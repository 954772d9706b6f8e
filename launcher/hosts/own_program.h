// This program, as distrun copies it to hosts.
//
//     const ProgramCopy copy = own_program();   // Its name there, and its length.
//     const auto bytes = read_own_program();
//
// The name has the build ID, so another build has another name.
#pragma once

#include <memory>
#include <string>

#include "distrun/result.h"
#include "launcher/hosts/remote_shell.h"

namespace distrun {

// Fails with kSystem if the program cannot be found, or was linked without a build ID.
Result<ProgramCopy> own_program();

// Fails with kSystem.
Result<std::shared_ptr<const std::string>> read_own_program();

}  // namespace distrun
