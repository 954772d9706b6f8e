#include "launcher/output_sink.h"

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <limits.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "common/unique_fd.h"

namespace distrun {

namespace asio = boost::asio;
using asio::posix::stream_descriptor;

namespace {

// A pipe that poll() calls writable takes this much without blocking; terminals and sockets
// likewise.
constexpr std::size_t kChunkBytes = PIPE_BUF;

bool takes_now(int fd) {
  pollfd state{.fd = fd, .events = POLLOUT, .revents = 0};
  return ::poll(&state, 1, 0) > 0;
}

}  // namespace

struct OutputSink::Impl : std::enable_shared_from_this<Impl> {
  Impl(asio::io_context& context, int to, std::function<void(int)> report_broken)
      : io(context), fd(to), writable(context), on_broken(std::move(report_broken)) {
    UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
    epoll_event event{.events = EPOLLOUT, .data = {.fd = fd}};
    if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &event) == 0) {
      writable.assign(epoll.release());
    }
  }

  asio::io_context& io;
  const int fd;
  // Asio would set a descriptor that it waits on to non-blocking, and `fd` is shared with others.
  // So it waits on an epoll instance of ours, which is readable when `fd` is writable.  Not open
  // for files and devices such as /dev/null: epoll refuses them, and a write there waits for
  // nobody.
  stream_descriptor writable;
  std::function<void(int)> on_broken;
  bool broken = false, waiting = false;
  std::string queue;
  std::size_t written = 0;  // Of `queue`.
  std::vector<std::function<void()>> on_drained;

  bool direct() const { return !writable.is_open(); }

  std::size_t left() const { return queue.size() - written; }

  void flush() {
    while (left() > 0 && !broken) {
      if (!direct() && !takes_now(fd)) return wait();
      const std::size_t size = direct() ? left() : std::min(left(), kChunkBytes);
      const auto now = ::write(fd, queue.data() + written, size);
      if (now >= 0) {
        written += static_cast<std::size_t>(now);
      } else if (errno == EAGAIN && !direct()) {  // Somebody else has set it to non-blocking.
        return wait();
      } else if (errno != EINTR) {
        broken = true;
        // Not from within write(): the caller is in the middle of something.
        asio::post(io, [self = shared_from_this(), error = errno] {
          if (self->on_broken) self->on_broken(error);
        });
      }
    }
    queue.clear();
    written = 0;
    for (auto& act : std::exchange(on_drained, {})) act();
  }

  void wait() {
    if (std::exchange(waiting, true)) return;
    writable.async_wait(stream_descriptor::wait_read,
                        [self = shared_from_this()](boost::system::error_code error) {
                          self->waiting = false;
                          if (!error) self->flush();
                        });
  }
};

OutputSink::OutputSink(asio::io_context& io, int fd, std::function<void(int)> on_broken)
    : impl_(std::make_shared<Impl>(io, fd, std::move(on_broken))) {}

OutputSink::~OutputSink() {
  boost::system::error_code ignored;
  impl_->on_broken = nullptr;
  impl_->on_drained.clear();
  impl_->writable.close(ignored);
}

void OutputSink::append(std::string_view bytes) {
  if (!impl_->broken) impl_->queue.append(bytes);
}

void OutputSink::flush() {
  if (!impl_->waiting) impl_->flush();
}

bool OutputSink::is_full() const { return impl_->left() > kQueueBytesMax; }

bool OutputSink::is_empty() const { return impl_->left() == 0; }

void OutputSink::when_drained(std::function<void()> act) {
  if (is_empty()) return act();
  impl_->on_drained.push_back(std::move(act));
  flush();
}

}  // namespace distrun
