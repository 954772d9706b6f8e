#include "testsuites/harness/run/run_pause.h"

#include <utility>

#include <boost/asio/post.hpp>

namespace distrun {

namespace asio = boost::asio;

RunPause::RunPause(asio::io_context& io, std::function<bool()> all_are_known,
                   std::chrono::milliseconds timeout)
    : io_(io), all_are_known_(std::move(all_are_known)), timeout_(timeout), timer_(io) {}

void RunPause::begin(std::function<void()> on_paused) {
  is_on_ = true;
  on_paused_ = std::move(on_paused);
  asio::post(io_, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->look();
  });
  timer_.expires_after(timeout_);
  timer_.async_wait([weak = weak_from_this()](boost::system::error_code error) {
    const auto self = weak.lock();
    if (self && !error) self->tell();
  });
}

void RunPause::look() {
  if (on_paused_ && all_are_known_()) tell();
}

void RunPause::end() {
  is_on_ = false;
  on_paused_ = nullptr;
  timer_.cancel();
}

void RunPause::tell() {
  timer_.cancel();
  asio::post(io_, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self && self->on_paused_) std::exchange(self->on_paused_, nullptr)();
  });
}

}  // namespace distrun
