// A pipe, and a bounded wait for one of its ends.
#pragma once

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <system_error>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "common/os/unique_fd.h"

namespace distrun::bench {

struct Pipe {
  Pipe() {
    int fds[2];
    if (::pipe2(fds, O_CLOEXEC) != 0)
      throw std::system_error(errno, std::generic_category(), "pipe");
    read.reset(fds[0]);
    write.reset(fds[1]);
  }
  UniqueFd read, write;
};

// Whether `fd` can be read, or has ended, before `deadline`.
inline bool readable_before(int fd, std::chrono::steady_clock::time_point deadline) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  pollfd wanted{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&wanted, 1, std::max(0, static_cast<int>(left.count()))) == 1;
}

}  // namespace distrun::bench
