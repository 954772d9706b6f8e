#include "launcher/process/worker_process.h"

#include <cerrno>
#include <csignal>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define BOOST_PROCESS_V2_HEADER_ONLY
#include <boost/process/v2/posix/default_launcher.hpp>
#include <boost/process/v2/stdio.hpp>

#include "common/os/die_with_parent.h"

namespace distrun {

namespace process = boost::process::v2;
using boost::system::error_code;

namespace {

// The limit before allow_many_descriptors().
std::optional<rlimit> descriptors_before;

std::vector<int> caught_signals() {
  std::vector<int> caught;
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action {};
    if (::sigaction(signal, nullptr, &action) != 0) continue;
    if (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN) caught.push_back(signal);
  }
  return caught;
}

// Runs between vfork and exec: only system calls are allowed, because the memory is the parent's.
struct WorkerSetup {
  pid_t launcher;
  sigset_t mask;
  std::vector<int> caught;
  std::optional<rlimit> descriptors;
  bool keeps_session;
  int kept;

  error_code on_exec_setup(process::posix::default_launcher&, const process::filesystem::path&,
                           const char* const*) {
    // A new session, as in torchrun: a worker that opens /dev/tty gets an error. In a background
    // group of the terminal's session it would stop, and hang.
    const bool alone = keeps_session ? ::setpgid(0, 0) == 0 : ::setsid() != -1;
    if (!alone || !die_with_parent(launcher)) return last_error();
    ::signal(SIGPIPE, SIG_DFL);  // The launcher ignores these; workers must not inherit that.
    ::signal(SIGXFSZ, SIG_DFL);
    // Pending signals arrive when unblocked, and must not run the launcher's handlers.
    for (const int signal : caught) ::signal(signal, SIG_DFL);
    ::sigprocmask(SIG_SETMASK, &mask, nullptr);
    if (descriptors) ::setrlimit(RLIMIT_NOFILE, &*descriptors);
    // Old kernels lack this call: inherited descriptors then stay open, as in a shell.
    ::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
    if (kept >= 0) ::fcntl(kept, F_SETFD, 0);
    return {};
  }

  static error_code last_error() { return {errno, boost::system::system_category()}; }
};

// Blocks every signal while parent and child share memory: a handler in the child would change the
// parent's state. WorkerSetup resets handlers, then unblocks.
class AllSignalsBlocked {
 public:
  AllSignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~AllSignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  const sigset_t& before() const { return before_; }

 private:
  sigset_t before_;
};

// The child's report if it could not execute the program.
struct Failure {
  enum class Step { kSetUp, kBind, kExec };
  Step step;
  int error_number;
};

struct VforkLauncher : process::posix::default_launcher {
  explicit VforkLauncher(const CpuSet& cpus) : cpus_(cpus) {}

  template <class... Inits>
  Result<pid_t> operator()(const std::string& executable, const char* const* arguments,
                           Inits&... inits) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return Error::from_errno("pipe");
    const UniqueFd failure_from(ends[0]);
    UniqueFd failure_to(ends[1]);
    const process::filesystem::path path(executable);
    const CpuMask mask(cpus_);

    // NOLINTBEGIN(clang-analyzer-*): vfork is intended; on_exec_setup() makes only system calls.
    const pid_t child = ::vfork();
    if (child == 0) {
      const error_code error =
          process::posix::detail::on_exec_setup(*this, path, arguments, inits...);
      Failure failure{Failure::Step::kSetUp, error.value()};
      if (!error && !cpus_.empty() && !mask.bind_this_thread()) {
        failure = {Failure::Step::kBind, errno};
      } else if (!error) {
        ::execve(path.c_str(), const_cast<char* const*>(arguments), const_cast<char* const*>(env));
        failure = {Failure::Step::kExec, errno};
      }
      [[maybe_unused]] const auto told = ::write(failure_to.get(), &failure, sizeof(failure));
      ::_exit(127);
    }
    // NOLINTEND(clang-analyzer-*)
    if (child < 0) return Error::from_errno("vfork");

    // vfork returns after exec() or the child's end, so the report is complete.
    failure_to.reset();
    Failure failure{};
    if (::read(failure_from.get(), &failure, sizeof(failure)) != sizeof(failure)) return child;
    ::waitpid(child, nullptr, 0);
    const int number = failure.error_number;
    if (failure.step == Failure::Step::kSetUp) {
      return Error::from_errno("set up a process for " + executable, number);
    }
    if (failure.step == Failure::Step::kBind) {
      return Error::from_errno("bind to CPUs " + cpu_list(cpus_), number);
    }
    Error error = Error::from_errno("exec " + executable, number);
    if (number == ENOENT) {
      error.kind = ErrorKind::kNotFound;
      error.message += " (or the interpreter in its first line is missing)";
    } else if (number == EACCES || number == ENOEXEC || number == EISDIR || number == E2BIG ||
               number == ETXTBSY) {
      error.kind = ErrorKind::kNotExecutable;
      if (number == ENOEXEC) error.message += " (a script needs a first line like #!/bin/sh)";
    }
    return error;
  }

 private:
  const CpuSet& cpus_;
};

}  // namespace

Result<WorkerProcess> spawn_process(const SpawnRequest& request) {
  std::vector<const char*> arguments;
  for (const std::string& argument : request.arguments) arguments.push_back(argument.c_str());
  arguments.push_back(nullptr);
  const Environment::Block environment = request.environment.block();

  VforkLauncher launcher(request.cpus);
  launcher.env = environment.pointers();
  process::process_stdio stdio{request.in, request.out, request.err};
  Result<pid_t> pid = [&] {
    const AllSignalsBlocked blocked;
    WorkerSetup setup{::getpid(),         blocked.before(),      caught_signals(),
                      descriptors_before, request.keeps_session, request.kept};
    return launcher(request.executable, arguments.data(), stdio, setup);
  }();
  if (!pid) return pid.error();

  WorkerProcess started{*pid, UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, *pid, 0)))};
  if (!started.pidfd) {
    Error error = Error::from_errno("pidfd_open (distrun needs Linux 5.4 or newer)");
    ::kill(-*pid, SIGKILL);
    ::waitpid(*pid, nullptr, 0);
    return error;
  }
  return started;
}

void allow_many_descriptors() {
  rlimit limit{};
  if (descriptors_before || ::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  rlimit raised = limit;
  raised.rlim_cur = limit.rlim_max;
  if (::setrlimit(RLIMIT_NOFILE, &raised) == 0) descriptors_before = limit;
}

std::optional<ProcessEnd> look_at_end(const WorkerProcess& process) {
  siginfo_t info{};
  const auto pid = static_cast<id_t>(process.pid);
  if (::waitid(P_PID, pid, &info, WEXITED | WNOWAIT | WNOHANG) != 0 || info.si_pid == 0) {
    return std::nullopt;
  }
  if (info.si_code == CLD_EXITED) return ExitedWith{info.si_status};
  return KilledBy{info.si_status};
}

bool has_dumped_core(const WorkerProcess& process) {
  siginfo_t info{};
  const auto pid = static_cast<id_t>(process.pid);
  return ::waitid(P_PID, pid, &info, WEXITED | WNOWAIT | WNOHANG) == 0 && info.si_pid != 0 &&
         info.si_code == CLD_DUMPED;
}

// Pids 0, -1 and, for groups, 1 would signal many processes.
void signal_process(const WorkerProcess& process, int signal) {
  if (process.pid > 1) ::kill(process.pid, signal);
}

void signal_group(const WorkerProcess& process, int signal) {
  if (process.pid > 1) ::kill(-process.pid, signal);
}

void end_group(const WorkerProcess& process) {
  signal_group(process, SIGKILL);
  while (::waitpid(process.pid, nullptr, 0) < 0 && errno == EINTR) continue;
}

}  // namespace distrun
