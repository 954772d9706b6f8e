#include "launcher/process/guard_watch.h"

#include <utility>

#include <fcntl.h>

namespace distrun {

void GuardWatch::begin(const GuardLifeline& lifeline, std::function<void()> on_end) {
  const int copy = lifeline.fd < 0 ? -1 : ::fcntl(lifeline.fd, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) return;
  lifeline_.assign(copy);
  lifeline_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                       [this, on_end = std::move(on_end)](boost::system::error_code error) {
                         if (!error && lifeline_.is_open()) on_end();
                       });
}

void GuardWatch::end() {
  boost::system::error_code ignored;
  lifeline_.close(ignored);
}

}  // namespace distrun
