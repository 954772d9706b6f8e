// Small files, read and written as one.
//
//     auto text = read_whole_file(path, kMiB);
//     if (!text) …                  // "error.json: it is longer than 1 MiB"
//     else if (!*text) …            // It is not there.
//     auto done = replace_file(path, "new");
//     if (!done) …                  // "write history.json: no space left on device"
//
// Whatever is found at `path`, reading takes a bounded time and a bounded amount of memory.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "distrun/result.h"

namespace distrun {

// Nothing where there is no such file.  Fails where it is not a regular file, longer than
// `bytes_max` (whole MiB) or not to be read.
Result<std::optional<std::string>> read_whole_file(const std::string& path, std::size_t bytes_max);

// Who reads `path` meanwhile, or after a crash, finds the old text or the new one, never a part: a
// new file is written beside it and takes its name.  Looks at the umask, so no other thread is to
// make files meanwhile.
Result<void> replace_file(const std::string& path, std::string_view text);

// Fails as replace_file() would, as far as is known before there is a text: no file can be made
// beside it.
Result<void> try_to_replace(const std::string& path);

}  // namespace distrun
