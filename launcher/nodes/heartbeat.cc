#include "launcher/nodes/heartbeat.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace distrun {

namespace {

constexpr int kSilentAfter = 2, kLostAfter = 3;  // Intervals.

std::string heartbeat_seconds(std::chrono::milliseconds time) {
  return fmt::format("{:g} s", std::chrono::duration<double>(time).count());
}

}  // namespace

Heartbeat::Heartbeat(std::chrono::milliseconds interval, TimePoint now)
    : interval_(interval), heard_(now), looked_(now) {}

Heartbeat::Finding Heartbeat::look(TimePoint now) {
  if (interval_.count() == 0) return Finding::kNothing;
  if (is_late(now)) {
    stopped_ = looked_;
    continued_ = heard_ = now;  // What came meanwhile has not been read yet.
    is_silent_ = false;
  }
  looked_ = now;
  const auto silence = now - heard_;
  if (silence >= kLostAfter * interval_) return Finding::kLost;
  const bool was_silent = std::exchange(is_silent_, silence >= kSilentAfter * interval_);
  if (is_silent_ == was_silent) return Finding::kNothing;
  return is_silent_ ? Finding::kSilent : Finding::kBack;
}

bool Heartbeat::is_late(TimePoint now) const {
  return interval_.count() != 0 && now - looked_ > kSilentAfter * interval_;
}

std::chrono::steady_clock::duration Heartbeat::own_pause(TimePoint now) const {
  if (is_late(now)) return now - looked_;
  return now - continued_ < interval_ ? continued_ - stopped_ : TimePoint::duration(0);
}

bool Heartbeat::was_stopped(TimePoint now) const {
  return interval_.count() != 0 && own_pause(now) >= kLostAfter * interval_;
}

std::string Heartbeat::own_loss_text(TimePoint now) const {
  return fmt::format(
      "it did nothing for {:.1f} s (was it stopped?), and the other nodes ended the run",
      std::chrono::duration<double>(own_pause(now)).count());
}

std::string Heartbeat::silence_text() const { return heartbeat_seconds(kSilentAfter * interval_); }

std::string Heartbeat::loss_text() const {
  return fmt::format("it has been silent for {}", heartbeat_seconds(kLostAfter * interval_));
}

std::chrono::milliseconds pause_of(std::chrono::milliseconds interval,
                                   std::chrono::milliseconds longest) {
  if (interval.count() == 0) return longest;
  return std::clamp(interval / 2, std::chrono::milliseconds(1), longest);
}

}  // namespace distrun
