// RunSignals reports signals by their meaning for the run.
//
//     RunSignals signals(io, options, [&](RunSignals::Meaning meaning, int signal) { … });
//     signals.begin(lifeline.blocked);
//     …
//     signals.end();                // no call of the handler after this
//
// Thread safety: every method and the handler run on the thread of `io`. See caught_signals.h.
#pragma once

#include <functional>

#include <boost/asio/io_context.hpp>
#include <signal.h>

#include "launcher/plan/options.h"
#include "launcher/process/caught_signals.h"

namespace distrun {

class RunSignals {
 public:
  enum class Meaning {
    kEnd,      // LaunchOptions::end_signals.
    kForward,  // LaunchOptions::forward_signals.
    kSuspend,  // SIGTSTP.
    kShow,     // SIGUSR1.
  };           // The first match counts.
  using Handler = std::function<void(Meaning meaning, int signal)>;

  RunSignals(boost::asio::io_context& io, const LaunchOptions& options, Handler handler);

  // Installs handlers, then sets the signal mask to `mask`, which delivers pending signals.
  void begin(const sigset_t& mask);

  void end() { signals_.end(); }

 private:
  Meaning meaning_of(int signal) const;

  const LaunchOptions& options_;
  CaughtSignals signals_;
};

}  // namespace distrun
