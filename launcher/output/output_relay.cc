#include "launcher/output/output_relay.h"

#include <cerrno>
#include <utility>

#include <sys/ioctl.h>
#include <unistd.h>

namespace distrun {

namespace asio = boost::asio;
using boost::system::error_code;

OutputRelay::OutputRelay(asio::io_context& io, UniqueFd from, StreamOutput& to,
                         std::span<char> buffer, std::function<void()> on_end)
    : from_(io, from.release()), to_(to), buffer_(buffer), on_end_(std::move(on_end)) {
  from_.non_blocking(true);  // Only this process uses this end of the pipe.
  wait();
}

OutputRelay::~OutputRelay() { *open_ = false; }

void OutputRelay::take() {
  int left = 0;
  if (*open_) ::ioctl(from_.native_handle(), FIONREAD, &left);
  while (left > 0) {
    const auto size = ::read(from_.native_handle(), buffer_.data(), buffer_.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return;
    to_.add({buffer_.data(), static_cast<std::size_t>(size)});
    left -= static_cast<int>(size);
  }
}

bool OutputRelay::close() {
  if (!*open_) return false;
  int left = 0;
  ::ioctl(from_.native_handle(), FIONREAD, &left);
  bool ended = false;
  // A process may keep writing, so reading is bounded.
  while (!ended && left >= 0) {
    const auto size = ::read(from_.native_handle(), buffer_.data(), buffer_.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) break;
    ended = size == 0;
    to_.add({buffer_.data(), static_cast<std::size_t>(size)});
    left -= static_cast<int>(size);
  }
  finish();
  return !ended;
}

void OutputRelay::wait() {
  from_.async_wait(asio::posix::stream_descriptor::wait_read,
                   [this, open = open_](error_code error) {
                     if (!error && *open) read();
                   });
}

void OutputRelay::read() {
  OutputSink* console = to_.console();
  if (console != nullptr && console->is_full()) {
    return console->when_drained([this, open = open_] {
      if (*open) wait();
    });
  }
  const auto size = ::read(from_.native_handle(), buffer_.data(), buffer_.size());
  if (size > 0) to_.add({buffer_.data(), static_cast<std::size_t>(size)});
  if (size > 0 || (size < 0 && (errno == EAGAIN || errno == EINTR))) return wait();
  finish();
  on_end_();
}

void OutputRelay::finish() {
  *open_ = false;
  error_code ignored;
  from_.close(ignored);
  to_.end();
}

}  // namespace distrun
