#include "launcher/run/progress_watch.h"

#include <algorithm>
#include <utility>

namespace distrun {

namespace {

using std::chrono::milliseconds;

// A hang is noticed at most a tenth too late.
milliseconds period_for(milliseconds limit) {
  return std::clamp(limit / 10, milliseconds(20), milliseconds(5000));
}

}  // namespace

QuietTime::QuietTime(milliseconds limit, milliseconds period)
    : limit_(limit),
      times_wanted_(static_cast<int>(std::min<std::int64_t>(limit / period / 2, 1000))) {}

bool QuietTime::is_over(const std::optional<ProgressMark>& mark, TimePoint now) {
  if (!mark) {
    last_.reset();
    return false;
  }
  if (!last_ || last_->mark != *mark) last_ = {*mark, now};
  ++last_->times;
  return now - last_->since >= limit_ && last_->times > times_wanted_;
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
  look();
}

void ProgressWatch::end() { timer_.cancel(); }

void ProgressWatch::look() {
  const bool is_quiet = quiet_time_.is_over(mark_(), std::chrono::steady_clock::now());
  timer_.expires_after(period_);
  timer_.async_wait([this](boost::system::error_code error) {
    if (!error) look();
  });
  // Last: it may end the watch.
  if (std::exchange(is_quiet_, is_quiet) != is_quiet) on_change_(is_quiet);
}

}  // namespace distrun
