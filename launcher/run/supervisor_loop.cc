#include "launcher/run/supervisor_loop.h"

#include <utility>

namespace distrun {

SupervisorLoop::SupervisorLoop(boost::asio::io_context& io, const Supervisor::Options& options,
                               std::function<void(const Actions&)> perform,
                               std::function<TimePoint()> clock)
    : supervisor_(options), perform_(std::move(perform)), clock_(std::move(clock)), deadline_(io) {}

void SupervisorLoop::start() {
  performing_ = true;
  perform_(supervisor_.start(clock_()));
  handle_events();
}

void SupervisorLoop::happened(SupervisorEvent event) {
  if (ended_) return;
  events_.emplace_back(std::move(event), clock_());
  if (!performing_ && holds_ == 0) handle_events();
}

void SupervisorLoop::release() {
  if (--holds_ == 0 && !performing_) handle_events();
}

void SupervisorLoop::end() {
  ended_ = true;
  events_.clear();
  deadline_.cancel();
}

void SupervisorLoop::handle_events() {
  performing_ = true;
  while (!events_.empty()) {
    const auto [event, time] = std::move(events_.front());
    events_.pop_front();
    perform_(supervisor_.step(event, time));
  }
  performing_ = false;
  wait_for_deadline();
}

void SupervisorLoop::wait_for_deadline() {
  const auto next = ended_ ? std::nullopt : supervisor_.next_deadline();
  if (!next) {
    deadline_.cancel();
    waiting_ = false;
  } else if (deadline_.expiry() != *next || !waiting_) {
    waiting_ = true;
    deadline_.expires_at(*next);
    deadline_.async_wait([this](boost::system::error_code error) {
      if (error) return;
      waiting_ = false;
      happened(Tick{});
    });
  }
}

}  // namespace distrun
