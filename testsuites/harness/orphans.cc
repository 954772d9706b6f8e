#include "testsuites/harness/orphans.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <iterator>
#include <set>

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/proc.h"
#include "common/unique_fd.h"

namespace distrun {

namespace {

using Clock = std::chrono::steady_clock;

std::vector<pid_t> children() {
  std::ifstream list("/proc/thread-self/children");
  return {std::istream_iterator<pid_t>(list), {}};
}

bool has_variable(pid_t pid, const std::string& variable) {
  const std::string environment = '\0' + proc_file(pid, "environ");
  return environment.find('\0' + variable + '\0') != environment.npos;
}

// On its way out a process loses its memory, and its environment with it, before its children
// become somebody else's.
bool is_ending(pid_t pid) { return proc_file(pid, "statm").starts_with("0 "); }

// Whether it ended in time.  It is not reaped by this.
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

std::vector<std::string> end_orphans(const std::string& variable,
                                     std::chrono::milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  std::vector<std::string> ended;
  std::set<pid_t> looked_at;
  for (bool found = true; found && Clock::now() < deadline;) {
    found = false;
    for (const pid_t child : children()) {
      const bool ending = is_ending(child);
      if ((!ending && !has_variable(child, variable)) || !looked_at.insert(child).second) continue;
      found = true;
      if (ending) {
        wait_for_end(child, deadline);
        continue;
      }
      ended.push_back(fmt::format("{} ({})", child, process_name(child)));
      ::kill(child, SIGKILL);  // A child that has not been reaped: nobody else can be meant.
      if (!wait_for_end(child, deadline)) ended.back() += ", which could not be ended";
    }
  }
  return ended;
}

}  // namespace distrun
