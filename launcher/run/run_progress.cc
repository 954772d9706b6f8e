#include "launcher/run/run_progress.h"

#include <utility>
#include <vector>

#include <sys/types.h>

namespace distrun {

Result<void> RunProgress::open() {
  auto traffic = NetworkTraffic::open();
  if (!traffic) return traffic.error();
  traffic_.emplace(std::move(*traffic));
  return {};
}

std::optional<ProgressMark> RunProgress::mark(std::uint16_t store_port) {
  if (output_.is_held_up()) return std::nullopt;
  const auto running = workers_.running();
  const ProgressMark before = std::exchange(last_, {.output = output_.bytes(),
                                                    .store = store_.changes(),
                                                    .running = running.size(),
                                                    .operations = collectives_.begun(),
                                                    .traffic = last_.traffic});
  // Reading the traffic takes time, and is needed only if there is no other progress.
  if (traffic_ && last_ == before) {
    std::vector<pid_t> pids;
    for (const auto& worker : running) {
      pids.insert(pids.end(), worker.pids.begin(), worker.pids.end());
    }
    last_.traffic = traffic_->bytes(pids, store_port);
  }
  return last_;
}

}  // namespace distrun
