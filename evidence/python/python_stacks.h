// The Python frames of another process, read from its memory.
//
//     for (const auto& [thread, frames] : python_stacks(read, runtime, *layout)) …
//
// The process should be stopped.  Whatever its memory holds, the functions end: they follow a
// bounded number of frames and threads, and skip what cannot be read.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "evidence/python/memory.h"
#include "evidence/python/python_layout.h"
#include "evidence/stack.h"

namespace distrun {

// By the pthread_t of each thread: its frames, outermost first.  `runtime` is the address of
// _PyRuntime.
std::map<std::uint64_t, std::vector<Frame>> python_stacks(const ReadMemory& read,
                                                          std::uint64_t runtime,
                                                          const PythonLayout& layout);

}  // namespace distrun
