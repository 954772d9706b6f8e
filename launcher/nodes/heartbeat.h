// Heartbeat notices that the other side of a connection does nothing any more, for example because
// it was stopped (SIGSTOP) or the network loses its packets.
//
//     Heartbeat heartbeat(std::chrono::seconds(5), now);
//     heartbeat.heard(now);                            // Whenever something comes.
//     switch (heartbeat.look(now)) …                   // Every pause_of(…).
//     if (heartbeat.was_stopped(now)) …                // This process, not the other side.
//
// The other side is silent after two intervals, and lost after three. If look() comes late, this
// process was stopped, and the time does not count.
//
// Pure.
#pragma once

#include <chrono>
#include <string>

namespace distrun {

class Heartbeat {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  enum class Finding { kNothing, kSilent, kBack, kLost };  // kSilent and kBack: once.

  // Without an interval, it finds nothing.
  Heartbeat() = default;
  Heartbeat(std::chrono::milliseconds interval, TimePoint now);

  void heard(TimePoint now) { heard_ = now; }
  Finding look(TimePoint now);
  // Whether look() did not come for so long, until now or shortly before, that the other side has
  // found this one lost.
  bool was_stopped(TimePoint now) const;

  std::string silence_text() const;  // "10 s"
  std::string loss_text() const;     // "it has been silent for 15 s"
  // "it did nothing for 60 s (was it stopped?), and the other nodes ended the run"
  std::string own_loss_text(TimePoint now) const;

 private:
  std::chrono::milliseconds interval_{0};
  TimePoint heard_, looked_;
  TimePoint stopped_, continued_;  // The last time that this process was stopped.
  bool is_silent_ = false;

  bool is_late(TimePoint now) const;
  std::chrono::steady_clock::duration own_pause(TimePoint now) const;  // The last one, or none.
};

// How long to wait before the next look, at most `longest`.
std::chrono::milliseconds pause_of(std::chrono::milliseconds interval,
                                   std::chrono::milliseconds longest);

}  // namespace distrun
