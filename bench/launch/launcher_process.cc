#include "bench/launch/launcher_process.h"

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/store/pipe.h"
#include "common/os/die_with_parent.h"
#include "common/text/parse_number.h"

namespace distrun::bench {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

namespace {

struct Status {
  std::string name;
  pid_t parent = -1;
  std::size_t peak_kib = 0;
};

Status status_of(pid_t pid) {
  Status status;
  std::ifstream file(fmt::format("/proc/{}/status", pid));
  for (std::string word; file >> word;) {
    if (word == "Name:") file >> status.name;
    if (word == "PPid:") file >> status.parent;
    if (word == "VmHWM:") file >> status.peak_kib;
  }
  return status;
}

}  // namespace

LauncherProcess::LauncherProcess(const std::vector<std::string>& command) : name_(command[0]) {
  std::vector<const char*> words;
  for (const std::string& word : command) words.push_back(word.c_str());
  words.push_back(nullptr);
  const pid_t parent = ::getpid();
  started_at_ = steady_clock::now();
  pid_ = ::fork();
  if (pid_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (pid_ == 0) {
    ::setpgid(0, 0);
    if (!die_with_parent(parent)) ::_exit(1);
    const int null = ::open("/dev/null", O_RDWR);
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null, fd);
    ::execv(words[0], const_cast<char* const*>(words.data()));
    ::_exit(127);
  }
  exit_.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
}

LauncherProcess::~LauncherProcess() {
  if (pid_ < 0) return;
  ::kill(-pid_, SIGKILL);
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

int LauncherProcess::wait(std::chrono::seconds max) {
  if (!readable_before(exit_.get(), steady_clock::now() + max)) {
    throw std::runtime_error(fmt::format("{} did not exit within {} s", name_, max.count()));
  }
  ended_at_ = steady_clock::now();
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

LauncherProcess::Memory LauncherProcess::peak_memory(const std::string& worker) const {
  std::map<pid_t, Status> all;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const auto pid = parse_number<pid_t>(entry.path().filename().string());
    if (pid) all[*pid] = status_of(*pid);
  }
  Memory memory;
  for (const auto& [pid, status] : all) {
    if (status.name == worker) continue;
    // Walks up to the launcher, or to the top.
    pid_t ancestor = pid;
    while (ancestor != pid_ && all.contains(ancestor)) ancestor = all[ancestor].parent;
    if (ancestor != pid_) continue;
    memory.kib += status.peak_kib;
    ++memory.processes;
  }
  return memory;
}

}  // namespace distrun::bench
