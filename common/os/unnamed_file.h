// A file without a name, for data that would take too much memory. The kernel removes it when the
// last descriptor closes, so a killed process leaves nothing behind.
//
//     auto file = make_unnamed_file("/tmp");
//     if (!file) return file.error();            // "make a file in /tmp: no space left on device"
//     … write(file->get(), …) …
#pragma once

#include <string>

#include "common/os/unique_fd.h"
#include "distrun/result.h"

namespace distrun {

// The file is for reading and writing, on the disk that holds `folder`.
Result<UniqueFd> make_unnamed_file(const std::string& folder);

// A path that opens the file of `fd` again, in this process.
std::string path_of_descriptor(int fd);

}  // namespace distrun
