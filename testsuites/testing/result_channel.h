// ResultChannel is the way from a rank to the runner: frames into a pipe (rank_frames.h).
//
//     ResultChannel channel(fd);
//     channel.send(AssertionFailed{…});
//
// Threads: any; a frame goes out whole.  One that finds the channel taken for a second gives up: it
// is for the thread that says where a hanging rank stands.
#pragma once

#include <mutex>

#include "common/unique_fd.h"
#include "testsuites/harness/rank_frames.h"

namespace distrun {

class ResultChannel {
 public:
  explicit ResultChannel(UniqueFd pipe) : pipe_(std::move(pipe)) {}

  void send(const RankFrame& frame);

 private:
  std::timed_mutex mutex_;
  UniqueFd pipe_;
};

}  // namespace distrun
