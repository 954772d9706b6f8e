// A file in memory that processes share by its descriptor (memfd_create), with room taken for all
// its bytes.
//
//     UniqueFd file = make_memory_file("distrun tensor", bytes, "share 64 bytes");
//
// Errors: c10::Error, which begins with what was being done, where there is no memory, no
// descriptor, or no such length (`ulimit -f`; the kernel would end the process with SIGXFSZ).
// Threads: any.
#pragma once

#include <cstddef>
#include <string>

#include "common/os/unique_fd.h"

namespace distrun::internal {

// It holds zeros, may be sealed, and is closed on exec.  Zero bytes take no room.
UniqueFd make_memory_file(const char* name, std::size_t bytes, const std::string& doing);

// Whether `ulimit -f` lets a file be written up to `bytes`.
bool may_be_file_size(std::size_t bytes);

}  // namespace distrun::internal
