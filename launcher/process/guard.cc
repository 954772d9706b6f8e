#include "launcher/process/guard.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <optional>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/os/unique_fd.h"

namespace distrun {

namespace {

constexpr std::chrono::seconds kKillTimeout{30};  // Processes that outlive SIGKILL are stuck.
// Not distrun's name, so that it survives `killall -9 distrun`, and cleans up.
constexpr const char* kSecondGuardName = "second-guard";

bool is_ignored(int signal) {
  struct sigaction action {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

struct Signals {
  sigset_t passed_on, before;

  // Blocks these signals for the rest of the process's life.
  explicit Signals(const std::vector<int>& wanted) {
    ::sigemptyset(&passed_on);
    for (const int signal : wanted) {
      if (!is_ignored(signal)) ::sigaddset(&passed_on, signal);
    }
    if (!is_ignored(SIGTSTP)) ::sigaddset(&passed_on, SIGTSTP);
    ::sigaddset(&passed_on, SIGCONT);
    ::sigaddset(&passed_on, SIGCHLD);
    ::pthread_sigmask(SIG_BLOCK, &passed_on, &before);
  }
};

// Stops this process as Ctrl-Z does, until another process continues it. In an orphaned process
// group, which the kernel does not stop, returns at once.
void stop_as_by_terminal() {
  sigset_t stop, pending;
  // SIGCONT has already arrived.
  if (::sigpending(&pending) == 0 && ::sigismember(&pending, SIGCONT) == 1) return;
  ::sigemptyset(&stop);
  ::sigaddset(&stop, SIGTSTP);
  ::raise(SIGTSTP);  // Blocked until the next line.
  ::pthread_sigmask(SIG_UNBLOCK, &stop, nullptr);
  ::pthread_sigmask(SIG_BLOCK, &stop, nullptr);
}

class ChildWatch {
 public:
  // The child watches the other end of `lifeline`. `above` is this process's own lifeline, or -1.
  ChildWatch(pid_t child, UniqueFd lifeline, const sigset_t& signals, int above)
      : child_(child),
        lifeline_(std::move(lifeline)),
        above_(above),
        signals_(::signalfd(-1, &signals, SFD_CLOEXEC)) {}

  // Reaps the child after its end.
  ProcessEnd run() {
    // Without a signalfd, signals stay pending, but the child's end is noticed.
    if (!signals_) return wait_for_end();
    for (;;) {
      std::array<pollfd, 2> waits = {{{signals_.get(), POLLIN, 0}, {above_, POLLIN, 0}}};
      if (::poll(waits.data(), waits.size(), -1) < 0) continue;
      if (waits[1].revents != 0) {
        lifeline_.reset();
        above_ = -1;
      }
      signalfd_siginfo info{};
      if (waits[0].revents == 0 || ::read(signals_.get(), &info, sizeof(info)) != sizeof(info)) {
        continue;
      }
      const int signal = static_cast<int>(info.ssi_signo);
      if (signal != SIGCHLD) {
        ::kill(child_, signal);
        // A stopped launcher would not handle the signal.
        if (signal != SIGTSTP) ::kill(child_, SIGCONT);
      } else if (const auto end = look_at_child()) {
        return *end;
      } else {
        // As process 1 of a container, the guard is the parent of all orphans.
        reap_ended_children([this](pid_t child) { return child == child_; });
      }
    }
  }

 private:
  std::optional<ProcessEnd> look_at_child() {
    siginfo_t info{};
    const auto child = static_cast<id_t>(child_);
    if (::waitid(P_PID, child, &info, WEXITED | WSTOPPED | WNOHANG) != 0 || info.si_pid == 0) {
      return std::nullopt;
    }
    if (info.si_code == CLD_EXITED) return ExitedWith{info.si_status};
    if (info.si_code != CLD_STOPPED) return KilledBy{info.si_status};
    if (info.si_status == kSelfStop) {
      if (above_ >= 0) {
        ::raise(kSelfStop);  // The guard stops as well, and continues this process.
      } else {
        stop_as_by_terminal();
      }
      ::kill(child_, SIGCONT);
    }
    return std::nullopt;
  }

  ProcessEnd wait_for_end() const {
    int status = 0;
    while (::waitpid(child_, &status, 0) < 0 && errno == EINTR) continue;
    if (WIFEXITED(status)) return ExitedWith{WEXITSTATUS(status)};
    return KilledBy{WTERMSIG(status)};
  }

  const pid_t child_;
  UniqueFd lifeline_;
  int above_;
  UniqueFd signals_;
};

struct LifelineEnds {
  UniqueFd watched, held;
};

Result<LifelineEnds> make_lifeline() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Error::from_errno("open a pipe for the launcher");
  return LifelineEnds{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

[[noreturn]] void leave(int status) {
  std::cout.flush();
  std::cerr.flush();
  std::fflush(nullptr);
  ::_exit(status);  // Not exit(): the parent cleans up what fork() copied.
}

[[noreturn]] void become_launcher(const LifelineEnds& lifeline, const Signals& signals,
                                  const Launcher& launcher, pid_t started) {
  ::setpgid(0, 0);
  if (const auto adopted = become_subreaper(); !adopted) leave(launcher(adopted.error()));
  leave(launcher(GuardLifeline{lifeline.watched.get(), signals.before, started}));
}

// `above` is the lifeline of the guard.
Result<int> second_guard(const Signals& signals, const Launcher& launcher,
                         const std::function<void(const Guarded&)>& on_end, pid_t started,
                         int above) {
  auto lifeline = make_lifeline();
  if (!lifeline) return lifeline.error();
  if (const auto adopted = become_subreaper(); !adopted) return adopted.error();
  const pid_t child = ::fork();
  if (child < 0) return Error::from_errno("start the launcher");
  if (child == 0) {
    lifeline->held.reset();
    become_launcher(*lifeline, signals, launcher, started);
  }
  ::prctl(PR_SET_NAME, kSecondGuardName);
  ::setpgid(child, child);  // The child does it too; a signal may come first.
  lifeline->watched.reset();
  Guarded guarded{.pid = child};
  guarded.end = ChildWatch(child, std::move(lifeline->held), signals.passed_on, above).run();
  guarded.left = kill_leaked_processes(kKillTimeout);
  on_end(guarded);
  return exit_status(guarded.end);
}

}  // namespace

Result<int> run_guarded(const std::vector<int>& signals, const Launcher& launcher,
                        const std::function<void(const Guarded&)>& on_end) {
  std::cout.flush();
  std::cerr.flush();
  ::signal(SIGCHLD, SIG_DFL);  // An ignored SIGCHLD would discard exit statuses.
  const Signals blocked(signals);
  const pid_t started = ::getpid();
  // Neither these children nor their descendants may be taken for leaked processes.
  const bool has_strangers = has_children();
  auto lifeline = make_lifeline();
  if (!lifeline) return lifeline.error();
  if (!has_strangers) {
    if (const auto adopted = become_subreaper(); !adopted) return adopted.error();
  }
  const pid_t child = ::fork();
  if (child < 0) return Error::from_errno("start the second guard");
  if (child == 0) {
    lifeline->held.reset();
    ::setpgid(0, 0);
    ::signal(SIGTTOU, SIG_IGN);  // A background process group may write to the terminal.
    const auto status = second_guard(blocked, launcher, on_end, started, lifeline->watched.get());
    leave(status ? *status : launcher(status.error()));
  }
  ::setpgid(child, child);
  lifeline->watched.reset();
  Guarded guarded{.name = "second guard", .pid = child};
  guarded.end = ChildWatch(child, std::move(lifeline->held), blocked.passed_on, -1).run();
  if (has_strangers) return exit_status(guarded.end);
  guarded.left = kill_leaked_processes(kKillTimeout);
  if (std::holds_alternative<KilledBy>(guarded.end)) on_end(guarded);
  return exit_status(guarded.end);
}

}  // namespace distrun
