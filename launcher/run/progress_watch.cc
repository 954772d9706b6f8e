#include "launcher/run/progress_watch.h"

#include <algorithm>
#include <utility>

namespace distrun {

namespace {

using std::chrono::milliseconds;

// A hang is noticed up to a tenth of the limit late, or a second: looking takes time, too.
milliseconds period_for(milliseconds limit) {
  const milliseconds tenth = std::clamp(limit / 10, milliseconds(20), milliseconds(5000));
  return limit < milliseconds(5000) ? tenth : std::max(tenth, milliseconds(1000));
}

}  // namespace

QuietTime::QuietTime(milliseconds limit, milliseconds period) : limit_(limit), period_(period) {}

bool QuietTime::is_over(const std::optional<ProgressMark>& mark, TimePoint now) {
  if (!mark || !last_ || last_->mark != *mark) {
    last_.reset();
    if (mark) last_ = {.mark = *mark, .at = now};
    return false;
  }
  last_->quiet += std::min<TimePoint::duration>(now - last_->at, 2 * period_);
  last_->at = now;
  return last_->quiet >= limit_;
}

ProgressWatch::ProgressWatch(boost::asio::io_context& io, milliseconds limit,
                             std::function<std::optional<ProgressMark>()> mark,
                             std::function<void(bool is_quiet)> on_change)
    : mark_(std::move(mark)),
      on_change_(std::move(on_change)),
      period_(period_for(limit)),
      quiet_time_(limit, period_),
      timer_(io) {}

void ProgressWatch::begin() {
  quiet_time_.begin();
  is_quiet_ = false;
  is_running_ = true;
  look();
}

void ProgressWatch::resume() {
  if (!is_running_) return;
  quiet_time_.begin();
  if (std::exchange(is_quiet_, false)) on_change_(false);
}

void ProgressWatch::end() {
  is_running_ = false;
  timer_.cancel();
}

void ProgressWatch::look() {
  const bool is_quiet = quiet_time_.is_over(mark_(), std::chrono::steady_clock::now());
  wait();
  // Last: it may end the watch.
  if (std::exchange(is_quiet_, is_quiet) != is_quiet) on_change_(is_quiet);
}

void ProgressWatch::wait() {
  timer_.expires_after(period_);
  timer_.async_wait([this, wait = ++waits_](boost::system::error_code error) {
    if (!error && is_running_ && wait == waits_) look();
  });
}

}  // namespace distrun
