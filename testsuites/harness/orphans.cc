#include "testsuites/harness/orphans.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <iterator>

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
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

// Whether it ended in time.
bool end_and_reap(pid_t child, Clock::time_point deadline) {
  const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  ::kill(child, SIGKILL);  // It is a child that has not been reaped: nobody else can be meant.
  pollfd ended{pidfd.get(), POLLIN, 0};
  int ready = -1;
  do {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    ready = ::poll(&ended, 1, static_cast<int>(std::max<long>(left.count(), 0)));
  } while (ready < 0 && errno == EINTR);
  return ready == 1 && ::waitpid(child, nullptr, WNOHANG) == child;
}

}  // namespace

std::vector<std::string> end_orphans(const std::string& variable,
                                     std::chrono::milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  std::vector<std::string> ended;
  for (bool found = true; found && Clock::now() < deadline;) {
    found = false;
    for (const pid_t child : children()) {
      if (!has_variable(child, variable)) continue;
      found = true;
      ended.push_back(fmt::format("{} ({})", child, process_name(child)));
      if (!end_and_reap(child, deadline)) ended.back() += ", which could not be ended";
    }
  }
  return ended;
}

}  // namespace distrun
