#include "sharing/spawn/started_process.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/os/environment.h"
#include "common/os/packet_socket.h"
#include "common/os/proc.h"

namespace distrun::internal {

namespace {

constexpr int kControl = STDERR_FILENO + 1;  // In a fresh process.

[[noreturn]] void fail(int index, const std::string& what, int error_number = errno) {
  const std::string process = "start process " + std::to_string(index);
  C10_THROW_ERROR(Error, Error::from_errno(what, error_number).with_context(process).message);
}

std::pair<UniqueFd, UniqueFd> make_sockets(int index) {
  auto pair = make_packet_sockets();
  TORCH_CHECK(pair, "start process ", index, ": ", pair.error().message);
  for (UniqueFd* end : {&pair->first, &pair->second}) {
    if (end->get() > STDERR_FILENO) continue;  // Possible if the caller has closed 0, 1 or 2.
    UniqueFd above(::fcntl(end->get(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
    if (!above) fail(index, "make a pair of sockets");
    *end = std::move(above);
  }
  return std::move(*pair);
}

// posix_spawn()'s functions return error numbers.
class FileActions {
 public:
  explicit FileActions(int index) : index_(index) {
    check(::posix_spawn_file_actions_init(&actions_));
  }
  ~FileActions() { ::posix_spawn_file_actions_destroy(&actions_); }
  FileActions(const FileActions&) = delete;
  FileActions& operator=(const FileActions&) = delete;

  void open_to_read(int fd, const char* path) {
    check(::posix_spawn_file_actions_addopen(&actions_, fd, path, O_RDONLY, 0));
  }
  void duplicate(int from, int to) {
    check(::posix_spawn_file_actions_adddup2(&actions_, from, to));
  }
  void close_from(int fd) { check(::posix_spawn_file_actions_addclosefrom_np(&actions_, fd)); }
  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  void check(int error_number) const {
    if (error_number != 0) fail(index_, "plan its descriptors", error_number);
  }

  int index_;
  posix_spawn_file_actions_t actions_;
};

// The caller's mask without SIGTERM, which ends workers.
sigset_t mask_of_workers() {
  sigset_t mask;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  ::sigdelset(&mask, SIGTERM);
  return mask;
}

class Attributes {
 public:
  Attributes() {
    ::posix_spawnattr_init(&attributes_);
    const sigset_t mask = mask_of_workers();
    sigset_t defaults;
    ::sigemptyset(&defaults);
    ::sigaddset(&defaults, SIGTERM);  // The caller may ignore it.
    ::posix_spawnattr_setsigmask(&attributes_, &mask);
    ::posix_spawnattr_setsigdefault(&attributes_, &defaults);
    ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~Attributes() { ::posix_spawnattr_destroy(&attributes_); }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;
  const posix_spawnattr_t* get() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_;
};

// From /proc/self/cmdline, where changes to argv's strings count, but not to its pointers.
std::vector<std::string> own_arguments() {
  const std::string bytes = proc_file(::getpid(), "cmdline");
  std::vector<std::string> arguments;
  for (std::size_t begin = 0; begin < bytes.size();) {
    const std::size_t end = std::min(bytes.find('\0', begin), bytes.size());
    arguments.push_back(bytes.substr(begin, end - begin));
    begin = end + 1;
  }
  return arguments;
}

// The kernel sends SIGKILL to `pid` when the other end of the lifeline is closed. Works in any
// process that has this end.
bool arm(int lifeline, pid_t pid) {
  return ::fcntl(lifeline, F_SETOWN, pid) == 0 && ::fcntl(lifeline, F_SETSIG, SIGKILL) == 0 &&
         ::fcntl(lifeline, F_SETFL, O_ASYNC) == 0;
}

// The parent's part of a process that has just been started.
StartedProcess watched(int index, pid_t pid, UniqueFd control, UniqueFd lifeline,
                       UniqueFd lifeline_of_worker) {
  StartedProcess process{index,
                         pid,
                         UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))),
                         std::move(control),
                         std::move(lifeline),
                         std::move(lifeline_of_worker)};
  const bool is_watched = process.pidfd && arm(process.lifeline_of_worker.get(), pid) &&
                          ::fcntl(process.control.get(), F_SETFL, O_NONBLOCK) == 0;
  if (!is_watched) {
    const int error_number = errno;
    if (error_number != ESRCH) kill_and_reap(pid);
    fail(index, "watch it (pidfd_open requires Linux 5.4)", error_number);
  }
  return process;
}

void check_single_thread(int index) {
  std::error_code error;
  const std::filesystem::directory_iterator tasks("/proc/self/task", error);
  if (error) fail(index, "/proc/self/task", error.value());
  const auto threads = std::distance(begin(tasks), end(tasks));
  TORCH_CHECK(threads == 1, "start process ", index, " by a fork: this process has ", threads,
              " threads, and a fork has only one of them; use StartMethod::kSpawn");
}

void flush() {
  std::cout.flush();
  std::clog.flush();
  std::fflush(nullptr);
}

// Signal handlers of the parent do not apply to a fork.
void forget_handlers() {
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action {};
    if (::sigaction(signal, nullptr, &action) != 0) continue;
    if (action.sa_handler != SIG_IGN || signal == SIGTERM) ::signal(signal, SIG_DFL);
  }
}

void read_nothing() {
  UniqueFd null(::open("/dev/null", O_RDONLY));
  if (!null) return;
  if (null.get() == STDIN_FILENO) {
    null.release();
  } else {
    ::dup2(null.get(), STDIN_FILENO);
  }
}

// noexcept: the stack below is the parent's.
[[noreturn]] void be_fork(WorkerEnds ends, const sigset_t& mask,
                          const std::function<void(WorkerEnds)>& run) noexcept {
  forget_handlers();
  ::pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  read_nothing();
  open_standard_descriptors();
  const auto go = receive_packet(ends.control.get());
  if (go && !go->has_ended) run(std::move(ends));
  ::_exit(1);
}

}  // namespace

StartedProcess start_fresh(int index) {
  auto [control, control_of_worker] = make_sockets(index);
  auto [lifeline, lifeline_of_worker] = make_sockets(index);
  FileActions actions(index);
  actions.duplicate(control_of_worker.get(), kControl);
  actions.open_to_read(STDIN_FILENO, "/dev/null");
  actions.close_from(kControl + 1);

  std::vector<std::string> arguments = own_arguments();
  if (arguments.empty()) fail(index, "read /proc/self/cmdline", ENOENT);
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  Environment environment = Environment::from(::environ);
  environment.set(kSpawnedVariable, std::to_string(kControl));
  const Environment::Block block = environment.block();

  pid_t pid = -1;
  const Attributes attributes;
  const int error_number = ::posix_spawn(&pid, "/proc/self/exe", actions.get(), attributes.get(),
                                         argv.data(), const_cast<char* const*>(block.pointers()));
  if (error_number != 0) fail(index, "execute /proc/self/exe", error_number);
  return watched(index, pid, std::move(control), std::move(lifeline),
                 std::move(lifeline_of_worker));
}

StartedProcess start_fork(int index, const std::function<void(WorkerEnds)>& run) {
  check_single_thread(index);
  auto [control, control_of_worker] = make_sockets(index);
  auto [lifeline, lifeline_of_worker] = make_sockets(index);
  flush();  // Otherwise both processes would print the buffers.
  const sigset_t mask = mask_of_workers();
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all,
                    &before);  // The caller's handlers must not run in a child.
  const pid_t pid = ::fork();
  if (pid == 0) {
    control.reset();
    lifeline.reset();
    be_fork({std::move(control_of_worker), std::move(lifeline_of_worker)}, mask, run);
  }
  const int error_number = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) fail(index, "fork", error_number);
  StartedProcess process =
      watched(index, pid, std::move(control), std::move(lifeline), std::move(lifeline_of_worker));
  const auto sent = send_packet(process.control.get(), "go", {});
  if (!sent && sent.error().kind != ErrorKind::kNotFound) {
    kill_and_reap(pid);
    TORCH_CHECK(false, "start process ", index, ": let it go: ", sent.error().message);
  }
  process.lifeline_of_worker.reset();
  return process;
}

void die_with_parent(int lifeline) {
  pollfd other_end{lifeline, 0, 0};
  if (!arm(lifeline, ::getpid()) || ::poll(&other_end, 1, 0) != 0) ::_exit(1);
}

void send_signal(const StartedProcess& process, int signal) {
  ::syscall(SYS_pidfd_send_signal, process.pidfd.get(), signal, nullptr, 0);
}

void kill_and_reap(pid_t pid) {
  ::kill(pid, SIGKILL);
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) continue;
}

void open_standard_descriptors() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    // open() returns the lowest free number, which is `fd`: those below are open.
    if (::fcntl(fd, F_GETFD) < 0) [[maybe_unused]]
      const int null = ::open("/dev/null", O_RDWR);
  }
}

std::optional<ProcessEnd> reap(const StartedProcess& process) {
  siginfo_t info{};
  const auto pidfd = static_cast<id_t>(process.pidfd.get());
  int failed = -1;
  do {
    failed = ::waitid(P_PIDFD, pidfd, &info, WEXITED | WNOHANG);
  } while (failed != 0 && errno == EINTR);
  if (failed != 0 || info.si_pid == 0) return std::nullopt;
  if (info.si_code == CLD_EXITED) return ExitedWith{info.si_status};
  return KilledBy{info.si_status};
}

}  // namespace distrun::internal
