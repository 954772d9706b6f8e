#include "launcher/nodes/name_look_up.h"

#include <algorithm>
#include <csignal>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include <sys/eventfd.h>
#include <unistd.h>

#include "common/os/unique_fd.h"

namespace distrun {

// Shared with the thread.
struct NameLookUp::Answer {
  UniqueFd done{::eventfd(0, EFD_CLOEXEC)};  // Readable once `found` is set.
  std::mutex mutex;
  std::optional<Result<ResolvedAddresses>> found;
};

NameLookUp::NameLookUp(boost::asio::io_context& io, const std::string& host, std::uint16_t port,
                       std::function<void(Result<ResolvedAddresses>)> handler)
    : answer_(std::make_shared<Answer>()), done_(io, ::dup(answer_->done.get())) {
  // Signals are for the launcher's thread: block them in the new one.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([answer = answer_, host, port] {
    auto found = look_up(host, port);
    if (!found) found = found.error().with_context("look up " + host);
    {
      const std::lock_guard lock(answer->mutex);
      answer->found = std::move(found);
    }
    ::eventfd_write(answer->done.get(), 1);
  }).detach();
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  done_.async_wait(done_.wait_read, [answer = answer_, handler = std::move(handler)](
                                        boost::system::error_code error) {
    if (error) return;
    std::unique_lock lock(answer->mutex);
    auto found = std::move(*answer->found);
    lock.unlock();
    handler(std::move(found));
  });
}

}  // namespace distrun
