// Reads and writes whole small files.
//
//     auto text = read_whole_file(path, kMiB);
//     if (!text) …                  // "error.json: it is longer than 1 MiB"
//     else if (!*text) …            // There is no such file.
//     auto done = replace_file(path, "new");
//     if (!done) …                  // "write history.json: no space left on device"
//
// Reading takes bounded time and memory, whatever `path` is.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "distrun/result.h"

namespace distrun {

// Empty if the file does not exist. Fails if it is not a regular file, longer than `bytes_max`
// (whole MiB) or unreadable.
Result<std::optional<std::string>> read_whole_file(const std::string& path, std::size_t bytes_max);

// Atomic: readers find the old text or the new one, even after a crash. Writes a new file next to
// `path` and renames it. Changes the umask for a moment: no other thread may create files
// meanwhile.
Result<void> replace_file(const std::string& path, std::string_view text);

// Checks whether replace_file() would work, and fails like it.
Result<void> try_to_replace(const std::string& path);

}  // namespace distrun
