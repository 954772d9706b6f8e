// A file in memory (memfd_create) that processes share by its descriptor, with all its memory
// allocated.
//
//     UniqueFd file = make_memory_file("distrun tensor", bytes, "share 64 bytes");
//
// Errors: c10::Error, which starts with `doing`, if memory or descriptors run out or the size
// exceeds `ulimit -f` (the kernel would kill the process with SIGXFSZ).  Threads: any.
#pragma once

#include <cstddef>
#include <string>

#include "common/os/unique_fd.h"

namespace distrun::internal {

// Contains zeros, may be sealed, and is close-on-exec.  An empty file allocates nothing.
UniqueFd make_memory_file(const char* name, std::size_t bytes, const std::string& doing);

// Whether `ulimit -f` allows a file of `bytes`.
bool may_be_file_size(std::size_t bytes);

}  // namespace distrun::internal
