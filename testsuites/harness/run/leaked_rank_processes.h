// LeakedRankProcesses finds and kills the processes that a rank leaked. They are reparented to this
// process (launcher/process/leaked_processes.h) and recognized by a variable of the rank.
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
  // waits for its exit, and repeats with the children that it leaves, until none is left or
  // `timeout` has passed. Reaps none.
  //
  // A process that cleared its environment is not found, and ends with the run. Blocks, mostly for
  // less than a millisecond; a tenth of a second when it first meets such a process.
  std::vector<std::string> end(const std::string& variable, std::chrono::milliseconds timeout);

  // Children without an environment; remembered, because looking at one takes time.
  const std::set<pid_t>& strangers() const { return strangers_; }

 private:
  std::set<pid_t> strangers_;
};

}  // namespace distrun
