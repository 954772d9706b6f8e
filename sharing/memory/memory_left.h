// How much memory a process may still use, under the limits of the machine and of its control
// groups (cgroup v2, such as a container's memory.max).
//
// Page cache and free swap count as available. Control groups of version 1 are ignored. Threads:
// any.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace distrun::internal {

// In bytes; empty if the kernel does not report it. `root` contains /proc and /sys.
std::optional<std::size_t> memory_left(const std::string& root = "");

}  // namespace distrun::internal
