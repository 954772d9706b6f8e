// The minimum of a launcher, for comparison: starts a program several times, each with two output
// pipes, forwards their bytes, and waits for all. On the first failure the others get SIGTERM. No
// store, no environment except RANK, no line buffering, no messages.
//
//     spawn_loop 64 /bin/true
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <fcntl.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

// The subject of an epoll event: the exit of `pid`, or a pipe whose bytes go to `to`.
struct Watched {
  int fd = -1;
  int to = -1;  // -1: an exit.
  pid_t pid = -1;
};

[[noreturn]] void die(const char* what) {
  std::perror(what);
  std::exit(125);
}

class Loop {
 public:
  Loop(int workers, char** arguments) : arguments_(arguments) {
    for (char** variable = environ; *variable != nullptr; ++variable) {
      environment_.push_back(*variable);
    }
    watched_.reserve(3 * static_cast<std::size_t>(workers));  // epoll holds pointers into it.
    for (int rank = 0; rank < workers; ++rank) spawn(rank);
  }

  int run() {
    while (left_ > 0) {
      std::array<epoll_event, 64> events;
      const int count = ::epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), -1);
      for (int i = 0; i < count; ++i) {
        auto& which = *static_cast<Watched*>(events[static_cast<std::size_t>(i)].data.ptr);
        if (which.to < 0) {
          ended(which);
        } else {
          pass_on(which);
        }
      }
    }
    return status_;
  }

 private:
  void spawn(int rank) {
    int out[2], err[2];
    if (::pipe2(out, O_CLOEXEC) != 0 || ::pipe2(err, O_CLOEXEC) != 0) die("pipe");
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, err[1], STDERR_FILENO);
    std::string variable = "RANK=" + std::to_string(rank);
    std::vector<char*> environment = environment_;
    environment.insert(environment.begin(), variable.data());
    environment.push_back(nullptr);
    pid_t pid = -1;
    errno = ::posix_spawnp(&pid, arguments_[0], &actions, nullptr, arguments_, environment.data());
    if (errno != 0) die(arguments_[0]);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(out[1]);
    ::close(err[1]);
    pids_.push_back(pid);
    watch({out[0], STDOUT_FILENO});
    watch({err[0], STDERR_FILENO});
    watch({static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)), -1, pid});
  }

  void watch(const Watched& what) {
    watched_.push_back(what);
    epoll_event event{.events = EPOLLIN, .data = {.ptr = &watched_.back()}};
    if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, what.fd, &event) != 0) die("epoll_ctl");
    ++left_;
  }

  void forget(Watched& which) {
    ::close(which.fd);
    --left_;
  }

  void pass_on(Watched& which) {
    std::array<char, 16384> buffer;
    const auto size = ::read(which.fd, buffer.data(), buffer.size());
    if (size <= 0) return forget(which);
    [[maybe_unused]] const auto written =
        ::write(which.to, buffer.data(), static_cast<std::size_t>(size));
  }

  void ended(Watched& which) {
    int status = 0;
    ::waitpid(which.pid, &status, 0);
    forget(which);
    std::erase(pids_, which.pid);
    if (status == 0 || status_ != 0) return;
    status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    for (const pid_t pid : pids_) ::kill(pid, SIGTERM);
  }

  char** arguments_;
  std::vector<char*> environment_;
  const int epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
  std::vector<Watched> watched_;
  std::vector<pid_t> pids_;
  int left_ = 0;
  int status_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const int workers = argc > 2 ? std::atoi(argv[1]) : 0;
  if (workers < 1) {
    std::fprintf(stderr, "usage: spawn_loop WORKERS PROGRAM [ARGUMENT...]\n");
    return 2;
  }
  return Loop(workers, argv + 2).run();
}
