#include "testsuites/testing/deadline.h"

#include <csignal>
#include <utility>

namespace distrun {

Deadline::Deadline(std::chrono::nanoseconds time, std::function<void()> when_missed) {
  const auto at = std::chrono::steady_clock::now() + time;
  sigset_t all, before;
  ::sigfillset(&all);  // Leaves signals to the test.
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this, at, missed = std::move(when_missed)] {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_until(lock, at, [this] { return met_; })) missed();
  });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Deadline::~Deadline() {
  {
    const std::lock_guard lock(mutex_);
    met_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

}  // namespace distrun
