// LeakedRankProcesses finds and kills the processes that a rank leaked.  They are reparented to
// the adopting process (launcher/process/leaked_processes.h) and recognized by a variable that the
// rank was given.
//
//     LeakedRankProcesses leaked;
//     const auto left = leaked.end("DISTRUN_TEST_RANK=k3kQ2a.17", 2s);     // {"4711 (sleep)"}
#pragma once

#include <chrono>
#include <set>
#include <string>
#include <vector>

#include <sys/types.h>

namespace distrun {

class LeakedRankProcesses {
 public:
  // Sends SIGKILL to each child of this process whose environment has `variable` ("NAME=value"),
  // waits for it to exit, and repeats with the children it leaves, until none is left or `timeout`
  // has passed.  Reaps none.
  //
  // A process that cleared its environment is not found; it ends with the run.  Blocks, mostly for
  // less than a millisecond; a tenth of a second the first time it meets such a process.
  std::vector<std::string> end(const std::string& variable, std::chrono::milliseconds timeout);

  // Children without an environment, so that each of them costs time only once.
  const std::set<pid_t>& strangers() const { return strangers_; }

 private:
  std::set<pid_t> strangers_;
};

}  // namespace distrun
