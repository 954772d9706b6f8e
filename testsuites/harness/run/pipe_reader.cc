#include "testsuites/harness/run/pipe_reader.h"

#include <algorithm>
#include <array>
#include <utility>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <sys/ioctl.h>

#include "common/units.h"

namespace distrun {

using boost::system::error_code;

struct PipeReader::Impl : std::enable_shared_from_this<Impl> {
  Impl(boost::asio::io_context& io, UniqueFd fd) : pipe(io, fd.release()) {}

  boost::asio::posix::stream_descriptor pipe;
  std::function<void(std::string_view)> on_bytes;
  std::function<void()> on_end;
  std::array<char, 64 * kKiB> buffer{};
  bool ended = false;

  void read() {
    pipe.async_read_some(boost::asio::buffer(buffer),
                         [self = shared_from_this()](error_code error, std::size_t size) {
                           if (self->ended) return;
                           if (error) return self->end();
                           self->on_bytes({self->buffer.data(), size});
                           if (!self->ended) self->read();
                         });
  }

  bool drain() {
    if (!ended) pipe.non_blocking(true);
    while (!ended) {
      error_code error;
      const auto size = pipe.read_some(boost::asio::buffer(buffer), error);
      if (error == boost::asio::error::would_block) return false;
      if (error) {
        end();
      } else {
        on_bytes({buffer.data(), size});
      }
    }
    return true;
  }

  void read_what_is_there() {
    int left = 0;
    for (::ioctl(pipe.native_handle(), FIONREAD, &left); !ended && left > 0;) {
      const auto wanted = std::min(buffer.size(), static_cast<std::size_t>(left));
      error_code error;
      const auto size = pipe.read_some(boost::asio::buffer(buffer, wanted), error);
      if (error) return;
      left -= static_cast<int>(size);
      on_bytes({buffer.data(), size});
    }
  }

  void end() {
    if (std::exchange(ended, true)) return;
    error_code ignored;
    pipe.close(ignored);
    on_end();
  }
};

PipeReader::PipeReader(boost::asio::io_context& io, UniqueFd pipe,
                       std::function<void(std::string_view)> on_bytes, std::function<void()> on_end)
    : impl_(std::make_shared<Impl>(io, std::move(pipe))) {
  impl_->on_bytes = std::move(on_bytes);
  impl_->on_end = std::move(on_end);
  impl_->read();
}

PipeReader::~PipeReader() {
  impl_->ended = true;
  error_code ignored;
  impl_->pipe.close(ignored);
}

void PipeReader::read_what_is_there() { impl_->read_what_is_there(); }
bool PipeReader::drain() { return impl_->drain(); }
void PipeReader::give_up() { impl_->end(); }
bool PipeReader::has_ended() const { return impl_->ended; }

}  // namespace distrun
