// CaughtSignals reports signals to this process, from the event loop.
//
//     CaughtSignals signals(io, [&](int signal) { … });
//     signals.begin({SIGINT, SIGTERM}, lifeline.blocked);
//     …
//     signals.end();                // no call of the handler after this
//
// Signals ignored at the start stay ignored, for children too, as under nohup and in background
// jobs of scripts. Thread safety: every method and the handler run on the thread of `io`.
#pragma once

#include <functional>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <signal.h>

namespace distrun {

class CaughtSignals {
 public:
  CaughtSignals(boost::asio::io_context& io, std::function<void(int signal)> handler);

  // Installs handlers, then sets the signal mask to `mask`, which delivers pending signals.
  void begin(const std::vector<int>& signals, const sigset_t& mask);

  void end();

 private:
  void wait();

  const std::function<void(int signal)> handler_;
  boost::asio::signal_set signals_;
  bool ended_ = false;
};

}  // namespace distrun
