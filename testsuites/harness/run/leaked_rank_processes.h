// LeakedRankProcesses finds and kills the processes that a rank leaked.  Those that outlive it
// become children of the process that adopts (launcher/process/leaked_processes.h), and are known
// by a variable that the rank was given.
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
  // Sends SIGKILL to each child of this process that has `variable`, "NAME=value", in its
  // environment, waits for its end, and goes on with those that have become children by that,
  // until there is none or the time is over.  Nobody is reaped.
  //
  // A process that has cleared its environment is not found; it ends with the run.  Blocks, mostly
  // for less than a millisecond: a tenth of a second where such a process is met for the first
  // time.
  std::vector<std::string> end(const std::string& variable, std::chrono::milliseconds timeout);

  // Children that have no environment: they are looked at for some time once, not each time.
  const std::set<pid_t>& strangers() const { return strangers_; }

 private:
  std::set<pid_t> strangers_;
};

}  // namespace distrun
