#include "launcher/process/caught_signals.h"

#include <csignal>
#include <utility>

namespace distrun {

CaughtSignals::CaughtSignals(boost::asio::io_context& io, std::function<void(int signal)> handler)
    : handler_(std::move(handler)), signals_(io) {}

void CaughtSignals::begin(const std::vector<int>& signals, const sigset_t& mask) {
  for (const int signal : signals) {
    struct sigaction before {};
    ::sigaction(signal, nullptr, &before);
    if (before.sa_handler != SIG_IGN) signals_.add(signal);
  }
  wait();
  ::pthread_sigmask(SIG_SETMASK, &mask, nullptr);
}

void CaughtSignals::end() {
  ended_ = true;
  signals_.cancel();
}

void CaughtSignals::wait() {
  signals_.async_wait([this](boost::system::error_code error, int signal) {
    if (error || ended_) return;  // Also ended_: a completed wait can no longer be canceled.
    wait();                       // First: the handler may serve other events while it waits.
    handler_(signal);
  });
}

}  // namespace distrun
