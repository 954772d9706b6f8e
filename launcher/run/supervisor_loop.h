// SupervisorLoop passes events to a supervisor, one after the other, and performs its actions.
//
//     SupervisorLoop loop(io, options, [&](const Actions& actions) { … });
//     loop.start();
//     loop.happened(Exited{worker, end});      // also while actions are performed
//     io.run();                                // a deadline becomes a Tick
//
// Thread safety: the thread of `io` only.
#pragma once

#include <deque>
#include <functional>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "launcher/run/supervisor.h"

namespace distrun {

class SupervisorLoop {
 public:
  SupervisorLoop(boost::asio::io_context& io, const Supervisor::Options& options,
                 std::function<void(const Actions&)> perform,
                 std::function<TimePoint()> clock = std::chrono::steady_clock::now);
  SupervisorLoop(const SupervisorLoop&) = delete;
  SupervisorLoop& operator=(const SupervisorLoop&) = delete;

  // Performs the first actions. Call it once.
  void start();

  // Performs the resulting actions. If called meanwhile, `event` waits.
  void happened(SupervisorEvent event);

  // Between hold() and release(), events wait. Both nest.
  void hold() { ++holds_; }
  void release();
  bool has_waiting_events() const { return !events_.empty(); }

  void end();

 private:
  void handle_events();
  void wait_for_deadline();

  Supervisor supervisor_;
  const std::function<void(const Actions&)> perform_;
  std::function<TimePoint()> clock_;
  std::deque<std::pair<SupervisorEvent, TimePoint>> events_;  // With the time when it happened.
  bool performing_ = false, ended_ = false;
  int holds_ = 0;
  boost::asio::steady_timer deadline_;
  bool waiting_ = false;  // For deadline_.
};

}  // namespace distrun
