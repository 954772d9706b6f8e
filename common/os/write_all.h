// Writes a whole text to a blocking descriptor.
#pragma once

#include <cerrno>
#include <cstddef>
#include <string_view>

#include <unistd.h>

namespace distrun {

// False, with errno, if a call fails.  Async-signal-safe.
inline bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const auto done = ::write(fd, text.data(), text.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(done));
  }
  return true;
}

}  // namespace distrun
