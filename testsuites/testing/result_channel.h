// ResultChannel is the way from a rank to the runner: frames into a pipe (rank_frames.h).
//
//     ResultChannel channel(fd);
//     channel.send(AssertionFailed{…});
//
// Threads: any; a frame goes out whole.  One that finds the channel taken for a second gives up: it
// is for the thread that says where a hanging rank stands.  Processes: of a fork of the one that
// has made the channel only failures go out.  It is not the rank, so it cannot end the test, nor
// skip it.
#pragma once

#include <mutex>

#include <unistd.h>

#include "common/os/unique_fd.h"
#include "testsuites/harness/protocol/rank_frames.h"

namespace distrun {

class ResultChannel {
 public:
  explicit ResultChannel(UniqueFd pipe) : pipe_(std::move(pipe)) {}

  void send(const RankFrame& frame);

 private:
  const pid_t rank_ = ::getpid();
  std::timed_mutex mutex_;
  UniqueFd pipe_;
};

}  // namespace distrun
