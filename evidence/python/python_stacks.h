// The Python frames of another process, read from its memory.
//
//     for (const auto& [thread, frames] : python_stacks(read, runtime, *layout)) …
//
// The process should be stopped. Always returns, whatever the memory contains: the number of frames
// and threads is bounded, and unreadable ones are skipped.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "evidence/python/memory.h"
#include "evidence/python/python_layout.h"
#include "evidence/stack.h"

namespace distrun {

// The frames of each thread, outermost first, by its pthread_t. `runtime` is the address of
// _PyRuntime.
std::map<std::uint64_t, std::vector<Frame>> python_stacks(const ReadMemory& read,
                                                          std::uint64_t runtime,
                                                          const PythonLayout& layout);

}  // namespace distrun
