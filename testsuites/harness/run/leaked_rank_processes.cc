#include "testsuites/harness/run/leaked_rank_processes.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/os/proc.h"
#include "common/os/unique_fd.h"
#include "launcher/process/leaked_processes.h"

namespace distrun {

namespace {

using Clock = std::chrono::steady_clock;

enum class Mark { kThere, kNotThere, kUnknown };

// Processes without memory have no environment: while they exit, before their children are
// reparented, and briefly during exec.
Mark mark_of(pid_t pid, const std::string& variable) {
  const std::string environment = proc_file(pid, "environ");
  if (environment.empty()) return Mark::kUnknown;
  const bool found = ('\0' + environment).find('\0' + variable + '\0') != environment.npos;
  return found ? Mark::kThere : Mark::kNotThere;
}

// Returns whether it exited in time. Does not reap it.
bool wait_for_end(pid_t child, Clock::time_point deadline) {
  const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  pollfd ended{pidfd.get(), POLLIN, 0};
  int ready = -1;
  do {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    ready = ::poll(&ended, 1, static_cast<int>(std::max<long>(left.count(), 0)));
  } while (ready < 0 && errno == EINTR);
  return ready == 1;
}

}  // namespace

std::vector<std::string> LeakedRankProcesses::end(const std::string& variable,
                                                  std::chrono::milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  constexpr int kLooksMax = 20;  // For a process without an environment.
  std::vector<std::string> ended;
  std::map<pid_t, int> looks;
  std::set<pid_t> done, strangers;  // Current children only, as pids are reused.
  for (bool found = true; found && Clock::now() < deadline;) {
    found = false;
    for (const pid_t child : children()) {
      if (strangers_.contains(child)) strangers.insert(child);
      if (done.contains(child) || strangers.contains(child)) continue;
      const Mark mark = mark_of(child, variable);
      if (mark == Mark::kNotThere) continue;
      found = true;
      if (mark == Mark::kUnknown) {
        if (wait_for_end(child, Clock::now() + std::chrono::milliseconds(5))) {
          done.insert(child);
        } else if (++looks[child] == kLooksMax) {
          strangers.insert(child);
        }
        continue;
      }
      done.insert(child);
      ended.push_back(fmt::format("{} ({})", child, process_name(child)));
      ::kill(child, SIGKILL);  // Safe: an unreaped child's pid is not reused.
      if (!wait_for_end(child, deadline)) ended.back() += ", which could not be killed";
    }
  }
  strangers_ = std::move(strangers);
  return ended;
}

}  // namespace distrun
