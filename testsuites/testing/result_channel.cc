#include "testsuites/testing/result_channel.h"

#include <cerrno>
#include <chrono>
#include <string>

#include <unistd.h>

namespace distrun {

void ResultChannel::send(const RankFrame& frame) {
  if (::getpid() != rank_ && !std::holds_alternative<AssertionFailed>(frame)) return;
  const std::unique_lock lock(mutex_, std::chrono::seconds(1));
  if (!lock) return;
  const std::string bytes = to_frame(frame);
  for (std::size_t done = 0; done < bytes.size();) {
    const auto size = ::write(pipe_.get(), bytes.data() + done, bytes.size() - done);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EBADF) is_closed_ = true;
    if (size <= 0) return;  // The runner has exited.
    done += static_cast<std::size_t>(size);
  }
}

}  // namespace distrun
