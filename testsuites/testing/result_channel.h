// ResultChannel sends frames (rank_frames.h) from a rank to the runner.
//
//     ResultChannel channel(fd);
//     channel.send(AssertionFailed{…});
//
// Thread safety: any thread; frames are not interleaved. A frame that waits a second for the
// channel is dropped, so that a hanging rank can still answer. Forks can send only failures: they
// must not end or skip the rank's test.
#pragma once

#include <atomic>
#include <mutex>

#include <unistd.h>

#include "common/os/unique_fd.h"
#include "testsuites/harness/protocol/rank_frames.h"

namespace distrun {

class ResultChannel {
 public:
  explicit ResultChannel(UniqueFd pipe) : pipe_(std::move(pipe)) {}

  void send(const RankFrame& frame);

  // Whether a test has closed the channel.
  bool is_closed() const { return is_closed_; }
  int descriptor() const { return pipe_.get(); }

 private:
  const pid_t rank_ = ::getpid();
  std::timed_mutex mutex_;
  UniqueFd pipe_;
  std::atomic<bool> is_closed_ = false;
};

}  // namespace distrun
