// The worker's side of spawn(): runs the function, reports how it ended, and always exits.
#pragma once

#include <functional>

#include "sharing/spawn/started_process.h"

namespace distrun::internal {

// In a fresh process: receives the call through its control socket.
[[noreturn]] void run_spawned(UniqueFd control) noexcept;

// In a fork.
[[noreturn]] void run_forked(WorkerEnds ends, const std::function<void()>& function) noexcept;

}  // namespace distrun::internal
