#include "testsuites/testing/test_host.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/os/die_with_parent.h"
#include "common/os/packet_socket.h"
#include "testsuites/harness/protocol/host_messages.h"
#include "testsuites/harness/protocol/rank_variables.h"
#include "testsuites/harness/protocol/test_list_json.h"
#include "testsuites/harness/protocol/where_signal.h"
#include "testsuites/testing/early_operations.h"
#include "testsuites/testing/registry.h"
#include "testsuites/testing/run_rank.h"

namespace distrun {

namespace {

struct Descriptors {
  UniqueFd in, out, err, result;
};

[[noreturn]] void fail_in_rank(const std::string& what) {
  const std::string text = Error::from_errno(what).message + "\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
  ::_exit(125);
}

// Ranks wake each other constantly. With more ranks than cores, a woken rank should not preempt the
// one that woke it.
void share_cores_well() {
  const sched_param none{};
  ::sched_setscheduler(0, SCHED_BATCH, &none);
}

// A debugger needs the terminal's input, so it joins the foreground group of the shell's job, which
// leaves Ctrl-C to it.
void join_foreground(int terminal) {
  if (const pid_t group = ::tcgetpgrp(terminal); group > 0) ::setpgid(0, group);
  for (const int signal : {SIGINT, SIGQUIT, SIGTTOU}) ::signal(signal, SIG_DFL);
}

void enter(const ForkRank& fork, Descriptors& descriptors, pid_t host) {
  ::setpgid(0, 0);
  if (fork.under.empty()) {
    share_cores_well();
  } else {
    join_foreground(descriptors.in.get());
  }
  if (!die_with_parent(host)) ::_exit(125);
  // The question may come before the rank can answer; programs that it executes never can.
  ::signal(where_signal(), SIG_IGN);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::dup2(descriptors.in.get(), STDIN_FILENO);
  ::dup2(descriptors.out.get(), STDOUT_FILENO);
  ::dup2(descriptors.err.get(), STDERR_FILENO);
  if (::chdir(fork.folder.c_str()) != 0) fail_in_rank("enter " + fork.folder);
  ::unsetenv(kTestHostVariable);
  if (char* mark = std::getenv(kRankMarkVariable)) {
    fork.mark.copy(mark, std::strlen(mark));
  }
  for (const auto& [name, value] : fork.variables) ::setenv(name.c_str(), value.c_str(), 1);
}

// Executes this program again, alone or under a debugger's command.
[[noreturn]] void execute_afresh(const ForkRank& fork, const UniqueFd& result) {
  std::array<char, 4096> path{};
  if (::readlink("/proc/self/exe", path.data(), path.size() - 1) < 0) fail_in_rank("find itself");
  ::setenv(kRankOfVariable, fork.test.c_str(), 1);
  ::setenv(kResultVariable, std::to_string(result.get()).c_str(), 1);
  ::fcntl(result.get(), F_SETFD, 0);
  std::vector<char*> argv;
  for (const std::string& word : fork.under) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(path.data());
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  fail_in_rank(std::string("exec ") + argv[0]);
}

class Host {
 public:
  explicit Host(int socket) : socket_(socket) {}

  void serve() {
    if (!say_ready()) return;
    for (;;) {
      std::vector<pollfd> waits = {{socket_, POLLIN, 0}};
      for (const auto& [pid, rank] : ranks_) waits.push_back({rank.pidfd.get(), POLLIN, 0});
      if (::poll(waits.data(), waits.size(), -1) < 0) continue;
      reap();
      if (waits[0].revents != 0 && !take_request()) return;
    }
  }

 private:
  struct Rank {
    std::uint64_t key;
    UniqueFd pidfd;  // Not SIGCHLD: a thread of the test program may take it.
  };

  bool say_ready() {
    const std::string list = test_list_json(registered_tests());
    const UniqueFd file(::memfd_create("tests", MFD_CLOEXEC));
    for (std::size_t done = 0; done < list.size();) {
      const auto size = ::write(file.get(), list.data() + done, list.size() - done);
      if (size <= 0) return false;
      done += static_cast<std::size_t>(size);
    }
    return send(HostReady{}, {file.get()});
  }

  bool take_request() {
    auto packet = receive_packet(socket_);
    if (!packet || packet->has_ended) return false;
    auto fork = parse_to_host(packet->bytes, packet->descriptors.size());
    if (!fork) return false;
    auto& fds = packet->descriptors;
    start(*fork, {std::move(fds[0]), std::move(fds[1]), std::move(fds[2]), std::move(fds[3])});
    return true;
  }

  void start(const ForkRank& fork, Descriptors descriptors) {
    const bool is_executed = fork.fresh || !fork.under.empty();
    if (const auto problem = is_executed ? std::nullopt : what_forbids_a_fork()) {
      send(RankNotForked{fork.key, *problem}, {});
      return;
    }
    const pid_t host = ::getpid();
    const WallTime begin = wall_time_now();
    const pid_t child = ::fork();
    if (child == 0) {
      ranks_.clear();
      enter(fork, descriptors, host);
      if (is_executed) execute_afresh(fork, descriptors.result);
      descriptors.in.reset();
      descriptors.out.reset();
      descriptors.err.reset();
      allow_operations();
      run_rank(fork.test, std::move(descriptors.result));
    }
    if (child < 0) {
      send(RankNotForked{fork.key, Error::from_errno("fork").message}, {});
      return;
    }
    // The child is not reaped yet, so its pid is unambiguous.
    UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
    if (!pidfd) {
      send(RankNotForked{fork.key, Error::from_errno("pidfd_open").message}, {});
      ::kill(child, SIGKILL);  // Unknown to the runner; reaped like others.
      return;
    }
    send(RankForked{fork.key, child, begin}, {pidfd.get()});
    ranks_[child] = {fork.key, std::move(pidfd)};
  }

  static std::optional<std::string> what_forbids_a_fork() {
    const std::string remedy =
        ": move what is at namespace scope into the test, or run it with --isolation exec";
    // First, because operations may start threads.
    if (operations_so_far() > 0) {
      return "the test host ran a tensor operation before main()" + remedy;
    }
    std::error_code error;
    const std::filesystem::directory_iterator tasks("/proc/self/task", error);
    const auto threads = std::distance(begin(tasks), end(tasks));
    if (threads > 1) {
      return "the test host has " + std::to_string(threads) +
             " threads, but a fork copies only one" + remedy;
    }
    if (has_touched_gpu()) {
      return "the test host has used a GPU, which its forks cannot use" + remedy;
    }
    return std::nullopt;
  }

  static bool has_touched_gpu() {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
      const auto target = std::filesystem::read_symlink(entry.path(), error).string();
      if (target.starts_with("/dev/nvidia")) return true;
    }
    return false;
  }

  void reap() {
    int status = 0;
    for (pid_t child; (child = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      const auto known = ranks_.extract(child);
      if (known.empty()) continue;
      const ProcessEnd end = WIFEXITED(status) ? ProcessEnd(ExitedWith{WEXITSTATUS(status)})
                                               : ProcessEnd(KilledBy{WTERMSIG(status)});
      send(RankEnded{known.mapped().key, end}, {});
    }
  }

  bool send(const FromHost& message, const std::vector<int>& descriptors) {
    return send_packet(socket_, to_packet(message), descriptors).has_value();
  }

  const int socket_;
  std::map<pid_t, Rank> ranks_;
};

}  // namespace

void serve_tests(int socket) {
  Host(socket).serve();
  ::_exit(0);
}

}  // namespace distrun
