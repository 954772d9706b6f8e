// How much memory a process may still take: what the machine has, and what its control groups allow
// (cgroup v2: a container's memory.max).
//
// What may be dropped counts as left: pages of files that are only cached, and what fits into swap.
//
// Not asked: control groups of version 1.  Threads: any.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace distrun::internal {

// In bytes; nothing where the kernel does not say.  `root` is where /proc and /sys are.
std::optional<std::size_t> memory_left(const std::string& root = "");

}  // namespace distrun::internal
