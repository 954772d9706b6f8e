#include "testsuites/harness/run/run_suspension.h"

#include <utility>

#include <boost/asio/post.hpp>

namespace distrun {

namespace asio = boost::asio;

RunSuspension::RunSuspension(asio::io_context& io, std::function<bool()> all_are_known,
                             std::chrono::milliseconds timeout)
    : io_(io), all_are_known_(std::move(all_are_known)), timeout_(timeout), timer_(io) {}

void RunSuspension::begin(std::function<void()> on_suspended) {
  is_on_ = true;
  on_suspended_ = std::move(on_suspended);
  asio::post(io_, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->look();
  });
  timer_.expires_after(timeout_);
  timer_.async_wait([weak = weak_from_this()](boost::system::error_code error) {
    const auto self = weak.lock();
    if (self && !error) self->tell();
  });
}

void RunSuspension::look() {
  if (on_suspended_ && all_are_known_()) tell();
}

void RunSuspension::end() {
  is_on_ = false;
  on_suspended_ = nullptr;
  timer_.cancel();
}

void RunSuspension::tell() {
  timer_.cancel();
  asio::post(io_, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self && self->on_suspended_) std::exchange(self->on_suspended_, nullptr)();
  });
}

}  // namespace distrun
