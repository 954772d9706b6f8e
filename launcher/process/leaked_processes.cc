#include "launcher/process/leaked_processes.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <fstream>
#include <iterator>
#include <set>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/os/proc.h"
#include "common/os/process_stat.h"

namespace distrun {

namespace {

// For kernels without lists of children.
std::vector<pid_t> children_by_looking_at_all() {
  std::vector<pid_t> children = all_processes();
  std::erase_if(children, [](pid_t pid) {
    const auto stat = read_process_stat(pid);
    return !stat || stat->parent != ::getpid();
  });
  return children;
}

bool has_ended(pid_t child) {
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT | WNOHANG) == 0 &&
         info.si_pid != 0;
}

// Returns whether any child remains.
bool reap_all_that_ended() {
  for (;;) {
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG) != 0) return errno == EINTR ? true : false;
    if (info.si_pid == 0) return true;
  }
}

class ChildSignalBlocked {
 public:
  ChildSignalBlocked() {
    ::sigemptyset(&child_);
    ::sigaddset(&child_, SIGCHLD);
    ::pthread_sigmask(SIG_BLOCK, &child_, &before_);
  }
  ~ChildSignalBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  // Blocks until a child ends, unless one has since this object was created, or until `time` has
  // passed.
  void wait(std::chrono::nanoseconds time) const {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time);
    const timespec limit{seconds.count(), (time - seconds).count()};
    ::sigtimedwait(&child_, nullptr, &limit);
  }

 private:
  sigset_t child_, before_;
};

}  // namespace

std::vector<pid_t> children() {
  std::ifstream list("/proc/thread-self/children");
  if (!list) return children_by_looking_at_all();
  return {std::istream_iterator<pid_t>(list), {}};
}

Result<void> become_subreaper() {
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) return Error::from_errno("become a subreaper");
  return {};
}

bool has_children() {
  siginfo_t info{};
  return ::waitid(P_ALL, 0, &info, WEXITED | WNOWAIT | WNOHANG) == 0;
}

KilledProcesses kill_leaked_processes(std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  const ChildSignalBlocked signals;
  KilledProcesses result;
  std::set<pid_t> signalled;
  while (reap_all_that_ended()) {
    for (const pid_t child : children()) {
      // Lists a process that is killed in several rounds once.
      if (!has_ended(child) && signalled.insert(child).second) {
        result.killed.push_back({child, process_name(child)});
      }
      ::kill(child, SIGKILL);
    }
    const auto left = deadline - std::chrono::steady_clock::now();
    if (left.count() <= 0) break;
    signals.wait(left);
  }
  if (!has_children()) return result;
  for (const pid_t child : children()) {
    if (has_ended(child)) continue;
    result.survivors.push_back({child, process_name(child)});
    std::erase_if(result.killed, [&](const LeakedProcess& one) { return one.pid == child; });
  }
  return result;
}

std::vector<LeakedProcess> members_of_group(pid_t group) {
  std::vector<LeakedProcess> members;
  for (const pid_t pid : all_processes()) {
    const auto stat = read_process_stat(pid);
    if (pid != group && stat && stat->group == group) members.push_back({pid, process_name(pid)});
  }
  return members;
}

void reap_ended_children(const std::function<bool(pid_t)>& is_kept) {
  for (const pid_t child : children()) {
    if (!is_kept(child)) ::waitpid(child, nullptr, WNOHANG);
  }
}

}  // namespace distrun
