// The process's side of spawn(): to run the function, to say how that has ended, and to end,
// whatever is thrown.
#pragma once

#include <functional>

#include "sharing/spawn/started_process.h"

namespace distrun::internal {

// Of a fresh process: receives what to do by its control socket.
[[noreturn]] void run_spawned(UniqueFd control) noexcept;

// Of a fork.
[[noreturn]] void run_forked(WorkerEnds ends, const std::function<void()>& function) noexcept;

}  // namespace distrun::internal
