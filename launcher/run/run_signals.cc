#include "launcher/run/run_signals.h"

#include <algorithm>
#include <csignal>
#include <utility>
#include <vector>

namespace distrun {

RunSignals::RunSignals(boost::asio::io_context& io, const LaunchOptions& options, Handler handler)
    : options_(options), handler_(std::move(handler)), signals_(io) {}

void RunSignals::begin(const sigset_t& mask) {
  for (const auto& wanted : {options_.end_signals, options_.forward_signals, {SIGTSTP, SIGUSR1}}) {
    for (const int signal : wanted) {
      struct sigaction before {};
      ::sigaction(signal, nullptr, &before);
      if (before.sa_handler != SIG_IGN) signals_.add(signal);
    }
  }
  wait();
  ::pthread_sigmask(SIG_SETMASK, &mask, nullptr);
}

void RunSignals::end() {
  ended_ = true;
  signals_.cancel();
}

void RunSignals::wait() {
  signals_.async_wait([this](boost::system::error_code error, int signal) {
    if (error || ended_) return;  // Also ended_: a completed wait can no longer be canceled.
    wait();                       // First: the handler may serve other events while it waits.
    handler_(meaning_of(signal), signal);
  });
}

RunSignals::Meaning RunSignals::meaning_of(int signal) const {
  const auto is_in = [signal](const std::vector<int>& signals) {
    return std::find(signals.begin(), signals.end(), signal) != signals.end();
  };
  if (is_in(options_.end_signals)) return Meaning::kEnd;
  if (is_in(options_.forward_signals)) return Meaning::kForward;
  return signal == SIGTSTP ? Meaning::kSuspend : Meaning::kShow;
}

}  // namespace distrun
