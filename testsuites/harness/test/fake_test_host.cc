// A test host without LibTorch, for tests of the runner.  It has the tests of fake_ranks.h and
// misbehaves as its name says:
//
//     ln -s fake_test_host refuses
//
// Its ranks lose their parent-death signal once the runner knows them, so only the runner ends
// them. Except under `says_ends_twice`, they do not overwrite the host's mark, so processes they
// leak are not found.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/os/die_with_parent.h"
#include "common/os/packet_socket.h"
#include "testsuites/harness/protocol/host_messages.h"
#include "testsuites/harness/protocol/rank_variables.h"
#include "testsuites/harness/protocol/test_list_json.h"
#include "testsuites/harness/protocol/where_signal.h"
#include "testsuites/harness/test/fake_ranks.h"

namespace distrun::fake {
namespace {

class Host {
 public:
  explicit Host(std::string name) : name_(std::move(name)) {}

  [[noreturn]] void serve() {
    begin();
    for (;;) {
      std::vector<pollfd> waits = {{STDIN_FILENO, POLLIN, 0}};
      for (const Child& child : children_) waits.push_back({child.pidfd.get(), POLLIN, 0});
      ::poll(waits.data(), waits.size(), -1);
      if (waits[0].revents != 0) take_request();
      // If several have ended, reports the oldest first.
      for (std::size_t i = 1, reaped = 0; i < waits.size(); ++i) {
        if (waits[i].revents != 0) reap(i - 1 - reaped++);
      }
    }
  }

 private:
  struct Child {
    std::uint64_t key;
    pid_t pid;
    UniqueFd pidfd;
  };

  void begin() {
    if (name_ == "says_nothing") wait_for_ever();
    if (name_ == "says_nothing_the_second_time" && !is_first_) wait_for_ever();
    const bool waits = name_ == "ends_after_a_rank_then_waits";
    if (waits && !is_first_) wait_at("host");
    if (name_ == "says_rubbish") send_packet(STDIN_FILENO, "rubbish", {});
    if (name_ == "says_too_much") say_too_much();
    if (name_ == "forgets_a_descriptor") send(RankForked{}, {});
    if (name_ == "closes_its_socket") {
      ::close(STDIN_FILENO);
      wait_for_ever();
    }
    if (name_ == "prints_and_ends") {
      std::puts("no memory left");
      std::exit(3);
    }
    if (name_ == "has_its_list_in_a_pipe") say_ready_with_a_pipe();
    if (name_ == "has_no_tests") say_ready(test_list_json({}));
    say_ready(name_ == "has_a_broken_list" ? "rubbish" : test_list());
    if (name_ == "ends_when_it_has_begun" && is_first_) ::_exit(3);
    if (name_ == "ends_when_let" && is_first_) {
      wait_at("host");
      ::_exit(3);
    }
    if (waits && !is_first_) let_one_go("passes_at_last");
    if (name_ == "waits_before_it_reads") wait_at("host");
  }

  // A packet above the limit.
  static void say_too_much() {
    const std::string much(kPacketBytesMax + 1, 'x');
    if (::send(STDIN_FILENO, much.data(), much.size(), 0) < 0) ::_exit(125);
  }

  static void send(const FromHost& message, const std::vector<int>& descriptors) {
    if (!send_packet(STDIN_FILENO, to_packet(message), descriptors)) ::_exit(0);
  }

  static void say_ready(const std::string& list) {
    const UniqueFd file(::memfd_create("tests", MFD_CLOEXEC));
    if (::write(file.get(), list.data(), list.size()) != static_cast<ssize_t>(list.size())) {
      ::_exit(125);
    }
    send(HostReady{}, {file.get()});
  }

  static void say_ready_with_a_pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) ::_exit(125);
    send(HostReady{}, {ends[0]});
    wait_for_ever();
  }

  void take_request() {
    auto packet = receive_packet(STDIN_FILENO);
    if (!packet || packet->has_ended) ::_exit(0);
    auto fork = parse_to_host(packet->bytes, packet->descriptors.size());
    if (!fork) ::_exit(125);
    if (name_ == "ends_when_asked" || name_ == "says_nothing_the_second_time") ::_exit(3);
    if (name_ == "never_forks") return;
    if (name_ == "refuses") return send(RankNotForked{fork->key, "no memory"}, {});
    if (name_ == "tells_of_strangers") {
      tell_of_strangers(0);
      tell_of_strangers(fork->key + 1'000'000);
    }
    start(*fork, packet->descriptors);
  }

  static void tell_of_strangers(std::uint64_t key) {
    const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
    send(RankForked{key, ::getpid(), wall_time_now()}, {pidfd.get()});
    send(RankNotForked{key, "no reason"}, {});
    send(RankEnded{key, ExitedWith{0}}, {});
  }

  void start(const ForkRank& fork, const std::vector<UniqueFd>& descriptors) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) ::_exit(125);
    UniqueFd from(ends[0]), to(ends[1]);
    const pid_t host = ::getpid(), child = ::fork();
    if (child == 0) {
      if (!die_with_parent(host)) ::_exit(125);
      to.reset();
      char byte = 0;  // By now the runner knows this rank and can kill it.
      if (::read(from.get(), &byte, 1) != 1) ::_exit(125);
      ::prctl(PR_SET_PDEATHSIG, 0);
      ::setpgid(0, 0);
      ::dup2(descriptors[1].get(), STDOUT_FILENO);
      ::dup2(descriptors[2].get(), STDERR_FILENO);
      if (says_ends_twice_) write_mark(fork.mark);
      for (const auto& [name, value] : fork.variables) ::setenv(name.c_str(), value.c_str(), 1);
      run_rank(fork.test, descriptors[3].get());
    }
    UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
    send(RankForked{fork.key, child, wall_time_now()}, {pidfd.get()});
    if (::write(to.get(), "!", 1) != 1) ::_exit(125);
    children_.push_back({fork.key, child, std::move(pidfd)});
  }

  static void write_mark(const std::string& mark) {
    char* place = std::getenv(kRankMarkVariable);
    if (place == nullptr) ::_exit(125);
    mark.copy(place, std::strlen(place));
  }

  void reap(std::size_t index) {
    int status = 0;
    ::waitpid(children_[index].pid, &status, 0);
    const ProcessEnd end = WIFEXITED(status) ? ProcessEnd(ExitedWith{WEXITSTATUS(status)})
                                             : ProcessEnd(KilledBy{WTERMSIG(status)});
    for (int times = 0; times <= (says_ends_twice_ ? 1 : 0); ++times) {
      send(RankEnded{children_[index].key, end}, {});
    }
    children_.erase(children_.begin() + static_cast<std::ptrdiff_t>(index));
    if (name_ == "ends_after_a_rank_then_waits" && is_first_) ::_exit(3);
  }

  const std::string name_;
  const bool is_first_ = is_first_at(name_), says_ends_twice_ = name_ == "says_ends_twice";
  std::vector<Child> children_;
};

}  // namespace
}  // namespace distrun::fake

int main(int, char** argv) {
  // Ranks can be asked from their first instruction.
  sigset_t asked;
  ::sigemptyset(&asked);
  ::sigaddset(&asked, distrun::where_signal());
  ::sigprocmask(SIG_BLOCK, &asked, nullptr);
  const char* slash = std::strrchr(argv[0], '/');
  distrun::fake::Host(slash == nullptr ? argv[0] : slash + 1).serve();
}
