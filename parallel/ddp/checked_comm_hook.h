// A user's communication hook as c10d::Reducer wants it, with its results checked: what LibTorch
// would find wrong in them it reports as internal errors of its own.  For ddp_reducer.cc.
#pragma once

#include <memory>
#include <string>

#include <torch/csrc/distributed/c10d/comm.hpp>

#include "distrun/comm_hook.h"

namespace distrun::internal {

// `name` is what the hook is called in errors.  Throws c10::ValueError where `hook` is empty.
std::unique_ptr<c10d::CommHookInterface> checked_comm_hook(CommHook hook, std::string name);

}  // namespace distrun::internal
