#include "launcher/run/run_signals.h"

#include <algorithm>
#include <csignal>
#include <utility>
#include <vector>

namespace distrun {

RunSignals::RunSignals(boost::asio::io_context& io, const LaunchOptions& options, Handler handler)
    : options_(options), signals_(io, [this, handler = std::move(handler)](int signal) {
        handler(meaning_of(signal), signal);
      }) {}

void RunSignals::begin(const sigset_t& mask) {
  std::vector<int> wanted = options_.end_signals;
  wanted.insert(wanted.end(), options_.forward_signals.begin(), options_.forward_signals.end());
  wanted.insert(wanted.end(), {SIGTSTP, SIGUSR1});
  signals_.begin(wanted, mask);
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
