// LauncherProcess is a launcher at work: started, waited for, timed.
//
//     LauncherProcess run({"mpiexec.hydra", "-n", "64", "/bin/true"});
//     const auto status = run.wait();
//     run.ended_at() - run.started_at()
//
// What it prints is thrown away.  It dies with this process.  Throws std::runtime_error where it
// cannot be started, or takes longer than it may.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include <sys/types.h>

#include "common/os/unique_fd.h"

namespace distrun::bench {

class LauncherProcess {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;  // CLOCK_MONOTONIC.

  explicit LauncherProcess(const std::vector<std::string>& command);
  ~LauncherProcess();  // Where it has not ended, by SIGKILL to its group.

  LauncherProcess(const LauncherProcess&) = delete;
  LauncherProcess& operator=(const LauncherProcess&) = delete;

  // Its exit status, or 128 + its signal.
  int wait(std::chrono::seconds max = std::chrono::minutes(2));

  TimePoint started_at() const { return started_at_; }
  TimePoint ended_at() const { return ended_at_; }

  // The most memory that it and its helpers have held: the sum of VmHWM of its process and of those
  // beneath it that are not `worker`.
  struct Memory {
    std::size_t kib = 0;
    int processes = 0;
  };
  Memory peak_memory(const std::string& worker) const;

 private:
  std::string name_;
  pid_t pid_ = -1;
  UniqueFd exit_;
  TimePoint started_at_, ended_at_;
};

}  // namespace distrun::bench
