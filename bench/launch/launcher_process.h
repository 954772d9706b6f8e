// LauncherProcess starts a launcher, waits for it and times it.
//
//     LauncherProcess run({"mpiexec.hydra", "-n", "64", "/bin/true"});
//     const auto status = run.wait();
//     run.ended_at() - run.started_at()
//
// Discards the launcher's output. The launcher dies with this process. Throws std::runtime_error if
// it cannot be started or takes too long.
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
  ~LauncherProcess();  // Kills its group if it runs.

  LauncherProcess(const LauncherProcess&) = delete;
  LauncherProcess& operator=(const LauncherProcess&) = delete;

  // The exit status, or 128 + the signal.
  int wait(std::chrono::seconds max = std::chrono::minutes(2));

  TimePoint started_at() const { return started_at_; }
  TimePoint ended_at() const { return ended_at_; }

  // Peak memory of the launcher and its helpers: the sum of VmHWM over it and its descendants not
  // named `worker`.
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
