#include "launcher/run/load_watch.h"

#include <chrono>
#include <utility>

namespace distrun {

LoadWatch::LoadWatch(boost::asio::io_context& io, const WorkerPool& workers,
                     std::function<void(const std::vector<WorkerLoad>&)> on_load)
    : workers_(workers), on_load_(std::move(on_load)), timer_(io) {}

void LoadWatch::begin() {
  timer_.expires_after(std::chrono::seconds(1));
  timer_.async_wait([this](boost::system::error_code error) {
    if (error || has_ended_) return;
    if (const auto loads = workers_.loads(); !loads.empty()) on_load_(loads);
    begin();
  });
}

void LoadWatch::end() {
  has_ended_ = true;  // A timer that has expired can no longer be cancelled.
  timer_.cancel();
}

}  // namespace distrun
