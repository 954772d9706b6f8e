#include "launcher/output_relay.h"

#include <cerrno>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <sys/ioctl.h>
#include <unistd.h>

namespace distrun {

namespace asio = boost::asio;
using boost::system::error_code;

OutputRelay::OutputRelay(asio::io_context& io, UniqueFd from, OutputSink& to,
                         std::function<void()> on_end)
    : from_(io, from.release()),
      to_(to),
      lines_([this](std::string_view line) { to_.append(line, this); }),
      on_end_(std::move(on_end)) {
  read();
}

bool OutputRelay::close() {
  if (!from_.is_open()) return false;
  int left = 0;
  ::ioctl(from_.native_handle(), FIONREAD, &left);
  bool ended = false;
  // Who goes on writing while this reads is not waited for.
  while (!ended && left >= 0) {
    const auto size = ::read(from_.native_handle(), buffer_.data(), buffer_.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) break;
    ended = size == 0;
    lines_.add({buffer_.data(), static_cast<std::size_t>(size)});
    left -= static_cast<int>(size);
  }
  finish();
  return !ended;
}

void OutputRelay::read() {
  from_.async_read_some(asio::buffer(buffer_), [this](error_code error, std::size_t size) {
    if (error == asio::error::operation_aborted) return;
    lines_.add({buffer_.data(), size});
    if (error) {
      finish();
      return on_end_();
    }
    to_.flush();
    if (!to_.is_full()) return read();
    to_.when_drained([this] {
      if (from_.is_open()) read();
    });
  });
}

void OutputRelay::finish() {
  error_code ignored;
  from_.close(ignored);
  lines_.end();
  to_.flush();
}

}  // namespace distrun
