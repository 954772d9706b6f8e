// Waits until the reader of a pipe or terminal takes bytes.
#pragma once

#include <algorithm>
#include <chrono>

#include <poll.h>

namespace distrun {

// False if the deadline passes first.  True also if writing fails at once, as without a reader, or
// if a signal arrives: try to write, and call it again.
inline bool wait_writable(int fd, std::chrono::steady_clock::time_point deadline) {
  using std::chrono::milliseconds, std::chrono::steady_clock;
  const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
  pollfd taken{.fd = fd, .events = POLLOUT, .revents = 0};
  return ::poll(&taken, 1, static_cast<int>(std::max(milliseconds::zero(), left).count())) != 0;
}

}  // namespace distrun
