#include "launcher/output/output_sink.h"

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/unique_fd.h"

namespace distrun {

namespace asio = boost::asio;
using asio::posix::stream_descriptor;

namespace {

// If poll() reports a pipe as writable, a write of this size does not block.
constexpr std::size_t kPolledBytes = PIPE_BUF;

bool takes_now(int fd) {
  pollfd state{.fd = fd, .events = POLLOUT, .revents = 0};
  return ::poll(&state, 1, 0) > 0;
}

}  // namespace

struct OutputSink::Impl : std::enable_shared_from_this<Impl> {
  // How to write without blocking.
  enum class Way {
    kNeverWaits,  // A file, or a device such as /dev/null.
    kReopened,    // A pipe or terminal, opened again as non-blocking.
    kSocket,      // send() with MSG_DONTWAIT.
    // A pipe or terminal that cannot be opened again (another user's). poll() may be wrong if
    // others write there.
    kPolled,
  };

  Impl(asio::io_context& context, int to, std::function<void(int)> report_broken)
      : io(context), fd(to), writable(context), on_broken(std::move(report_broken)) {
    struct stat status {};
    if (::fstat(fd, &status) != 0 || S_ISREG(status.st_mode)) return;
    if (S_ISSOCK(status.st_mode)) {
      way = Way::kSocket;
    } else if (S_ISFIFO(status.st_mode) || ::isatty(fd) != 0) {
      const std::string path = fmt::format("/proc/self/fd/{}", fd);
      own.reset(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
      way = own ? Way::kReopened : Way::kPolled;
    } else {
      return;
    }
    UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
    epoll_event event{.events = EPOLLOUT, .data = {.fd = target()}};
    if (!epoll || ::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, target(), &event) != 0) {
      throw std::system_error(errno, std::generic_category(), "watch an output of distrun");
    }
    writable.assign(epoll.release());
  }

  asio::io_context& io;
  const int fd;
  UniqueFd own;
  Way way = Way::kNeverWaits;
  // Asio would set `fd`, which other processes share, to non-blocking. So it waits on an epoll
  // instance, which is readable when `fd` is writable.
  stream_descriptor writable;
  std::function<void(int)> on_broken;
  std::function<void(std::string_view)> copy;
  bool broken = false, waiting = false;
  std::string queue;
  std::size_t written = 0;  // From the start of `queue`.
  bool line_open = false;
  const void* last_source = nullptr;
  std::vector<std::function<void()>> on_drained;

  int target() const { return own ? own.get() : fd; }
  std::size_t left() const { return queue.size() - written; }

  // Like write(), but fails with EAGAIN instead of blocking.
  ssize_t write_some(std::string_view bytes) {
    if (way == Way::kSocket) {
      return ::send(fd, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    if (way != Way::kPolled) return ::write(target(), bytes.data(), bytes.size());
    if (takes_now(fd)) return ::write(fd, bytes.data(), std::min(bytes.size(), kPolledBytes));
    errno = EAGAIN;
    return -1;
  }

  void queue_bytes(std::string_view bytes) {
    queue.append(bytes);
    if (copy) copy(bytes);
  }

  void flush() {
    while (left() > 0 && !broken) {
      const ssize_t size = write_some(std::string_view(queue).substr(written));
      if (size >= 0) {
        written += static_cast<std::size_t>(size);
      } else if (errno == EAGAIN && writable.is_open()) {
        // Erases written bytes only once they are half of the queue.
        if (written >= left()) queue.erase(0, std::exchange(written, 0));
        return wait();
      } else if (errno != EINTR) {
        broken = true;
        // Posted, so that flush()'s caller is not re-entered.
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

void OutputSink::copy_to(std::function<void(std::string_view bytes)> copy) {
  impl_->copy = std::move(copy);
}

void OutputSink::append(std::string_view bytes, const void* source) {
  if (impl_->broken || bytes.empty()) return;
  if (impl_->line_open && impl_->last_source != source) impl_->queue_bytes("\n");
  impl_->queue_bytes(bytes);
  impl_->last_source = source;
  impl_->line_open = bytes.back() != '\n';
}

void OutputSink::write(std::string_view bytes, const void* source) {
  if (bytes.empty()) return;
  std::size_t taken = 0;
  if (is_empty() && !impl_->broken && !(impl_->line_open && impl_->last_source != source)) {
    taken = static_cast<std::size_t>(std::max<ssize_t>(impl_->write_some(bytes), 0));
    if (impl_->copy) impl_->copy(bytes.substr(0, taken));
  }
  if (taken < bytes.size()) {
    append(bytes.substr(taken), source);
    return flush();
  }
  impl_->last_source = source;
  impl_->line_open = bytes.back() != '\n';
}

void OutputSink::flush() {
  if (!impl_->waiting) impl_->flush();
}

bool OutputSink::is_full() const { return impl_->left() > kQueueBytesMax; }

bool OutputSink::is_empty() const { return impl_->left() == 0; }

bool OutputSink::line_is_open() const { return impl_->line_open; }

bool OutputSink::line_is_open(const void* source) const {
  return impl_->line_open && impl_->last_source == source;
}

void OutputSink::when_drained(std::function<void()> act) {
  if (is_empty()) return act();
  impl_->on_drained.push_back(std::move(act));
  flush();
}

}  // namespace distrun
