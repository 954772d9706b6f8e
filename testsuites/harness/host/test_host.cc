#include "testsuites/harness/host/test_host.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/os/die_with_parent.h"
#include "common/os/packet_socket.h"
#include "common/wall_time.h"
#include "testsuites/harness/protocol/rank_variables.h"
#include "testsuites/harness/protocol/test_list_json.h"
#include "testsuites/harness/protocol/where_signal.h"

namespace distrun {

namespace {

struct Descriptors {
  UniqueFd in, out, err, result;
};

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
  for (const int question : {where_signal(), collective_signal()}) ::signal(question, SIG_IGN);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::dup2(descriptors.in.get(), STDIN_FILENO);
  ::dup2(descriptors.out.get(), STDOUT_FILENO);
  ::dup2(descriptors.err.get(), STDERR_FILENO);
  descriptors.in.reset();
  descriptors.out.reset();
  descriptors.err.reset();
  ::unsetenv(kTestHostVariable);
  if (char* mark = std::getenv(kRankMarkVariable)) {
    fork.mark.copy(mark, std::strlen(mark));
  }
  for (const auto& [name, value] : fork.variables) ::setenv(name.c_str(), value.c_str(), 1);
}

class Host {
 public:
  Host(int socket, const TestHostWork& work) : socket_(socket), work_(work) {}

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
    const std::string list = test_list_json(work_.tests);
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
    if (const auto problem = work_.what_forbids(fork)) {
      send(RankNotForked{fork.key, *problem}, {});
      return;
    }
    const pid_t host = ::getpid();
    const WallTime begin = wall_time_now();
    const pid_t child = ::fork();
    if (child == 0) {
      ranks_.clear();
      enter(fork, descriptors, host);
      work_.run_rank(fork, std::move(descriptors.result));
      std::abort();  // It must not return.
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
  const TestHostWork& work_;
  std::map<pid_t, Rank> ranks_;
};

}  // namespace

void serve_tests(int socket, const TestHostWork& work) {
  Host(socket, work).serve();
  ::_exit(0);
}

void execute_in_rank(const ForkRank& fork, const std::vector<std::string>& command) {
  std::vector<char*> argv;
  for (const auto* words : {&fork.under, &command}) {
    for (const std::string& word : *words) argv.push_back(const_cast<char*>(word.c_str()));
  }
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  fail_in_rank(std::string("exec ") + argv[0]);
}

void fail_in_rank(const std::string& what) {
  const std::string text = Error::from_errno(what).message + "\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
  ::_exit(125);
}

}  // namespace distrun
