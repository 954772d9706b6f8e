#include "launcher/name_look_up.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include <netdb.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/unique_fd.h"

namespace distrun {

using boost::asio::ip::tcp;

// Shared with the thread.
struct NameLookUp::Answer {
  UniqueFd done{::eventfd(0, EFD_CLOEXEC)};  // Readable when `found` is there.
  std::mutex mutex;
  std::optional<Result<Endpoints>> found;
};

namespace {

Result<Endpoints> look_up(const std::string& host, std::uint16_t port) {
  addrinfo hints{}, *list = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &list);
  Endpoints endpoints;
  for (const addrinfo* at = list; at != nullptr; at = at->ai_next) {
    tcp::endpoint endpoint;
    if (at->ai_addrlen > endpoint.capacity()) continue;
    std::memcpy(endpoint.data(), at->ai_addr, at->ai_addrlen);
    endpoint.resize(at->ai_addrlen);
    endpoint.port(port);
    endpoints.push_back(endpoint);
  }
  if (list != nullptr) ::freeaddrinfo(list);
  if (!endpoints.empty()) return endpoints;
  return Error{ErrorKind::kSystem, "the name " + host + " has no address: " +
                                       (error == 0 ? "none" : ::gai_strerror(error))};
}

}  // namespace

NameLookUp::NameLookUp(boost::asio::io_context& io, const std::string& host, std::uint16_t port,
                       std::function<void(Result<Endpoints>)> handler)
    : answer_(std::make_shared<Answer>()), done_(io, ::dup(answer_->done.get())) {
  // Signals are for the thread that made it: a new one inherits what is blocked.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([answer = answer_, host, port] {
    auto found = look_up(host, port);
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
