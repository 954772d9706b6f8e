// The signals that reach a launcher, told as what they mean for its run.
//
//     RunSignals signals(io, options, [&](RunSignals::Meaning meaning, int signal) { … });
//     signals.begin(lifeline.blocked);
//     …
//     signals.end();                // nothing is told after this
//
// What is ignored when it begins stays so, for the workers too: nohup, and background jobs of
// scripts.  Threads: every method runs on the thread of `io`, and so does the handler.
#pragma once

#include <functional>

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <signal.h>

#include "launcher/plan/options.h"

namespace distrun {

class RunSignals {
 public:
  enum class Meaning {
    kEnd,      // LaunchOptions::end_signals.
    kForward,  // Its forward_signals.
    kSuspend,  // SIGTSTP.
    kShow,     // SIGUSR1.
  };           // The first that fits.
  using Handler = std::function<void(Meaning meaning, int signal)>;

  RunSignals(boost::asio::io_context& io, const LaunchOptions& options, Handler handler);

  // Catches them, then lets through what was blocked meanwhile: `mask` is what stays blocked.
  void begin(const sigset_t& mask);

  void end();

 private:
  void wait();
  Meaning meaning_of(int signal) const;

  const LaunchOptions& options_;
  Handler handler_;
  boost::asio::signal_set signals_;
  bool ended_ = false;
};

}  // namespace distrun
