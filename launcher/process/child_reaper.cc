#include "launcher/process/child_reaper.h"

#include <chrono>
#include <csignal>
#include <utility>

#include "launcher/process/leaked_processes.h"

namespace distrun {

using boost::system::error_code;

ChildReaper::ChildReaper(boost::asio::io_context& io, std::function<bool(pid_t)> is_kept)
    : is_kept_(std::move(is_kept)), child_ended_(io, SIGCHLD), pause_(io) {}

void ChildReaper::begin() {
  child_ended_.async_wait([this](error_code error, int) {
    if (error || ended_) return;  // Also ended_: a completed wait can no longer be canceled.
    pause_.expires_after(std::chrono::seconds(1));
    pause_.async_wait([this](error_code canceled) {
      if (canceled || ended_) return;
      reap_ended_children(is_kept_);
      begin();
    });
  });
}

void ChildReaper::end() {
  ended_ = true;
  child_ended_.cancel();
  pause_.cancel();
}

}  // namespace distrun
