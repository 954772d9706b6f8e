// Checks the results of a user's communication hook, because LibTorch reports wrong ones as
// internal errors.
#pragma once

#include <memory>
#include <string>

#include <torch/csrc/distributed/c10d/comm.hpp>

#include "distrun/comm_hook.h"

namespace distrun::internal {

// Errors name the hook `name`.  Throws c10::ValueError if `hook` is empty.
std::unique_ptr<c10d::CommHookInterface> checked_comm_hook(CommHook hook, std::string name);

}  // namespace distrun::internal
