#include "bench/store/server_process.h"

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <system_error>
#include <thread>

#include <fmt/format.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/store/pipe.h"
#include "common/os/die_with_parent.h"

namespace distrun::bench {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

namespace {

constexpr auto kStartMax = 60s;  // LibTorch may be read from disk.
constexpr auto kEndMax = 5s;

std::chrono::nanoseconds cpu_now(pid_t pid) {
  std::int64_t sum = 0;
  for (const auto& task : std::filesystem::directory_iterator(fmt::format("/proc/{}/task", pid))) {
    std::int64_t run_time = 0;
    if (!(std::ifstream(task.path() / "schedstat") >> run_time)) {
      throw std::runtime_error("this kernel has no /proc/PID/task/TID/schedstat");
    }
    sum += run_time;
  }
  return std::chrono::nanoseconds(sum);
}

}  // namespace

ServerProcess::ServerProcess(const std::string& program) {
  Pipe input, output;
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (pid_ == 0) {
    if (!die_with_parent(parent)) ::_exit(1);
    ::dup2(input.read.get(), STDIN_FILENO);
    ::dup2(output.write.get(), STDOUT_FILENO);
    ::execl(program.c_str(), program.c_str(), nullptr);
    ::_exit(127);
  }
  input_ = std::move(input.write);
  output.write.reset();
  try {
    read_first_line(output.read.get());
  } catch (const std::exception& error) {
    end();
    throw std::runtime_error(fmt::format("{}: {}", program, error.what()));
  }
}

ServerProcess::~ServerProcess() { end(); }

void ServerProcess::read_first_line(int fd) {
  const auto deadline = steady_clock::now() + kStartMax;
  std::string line;
  for (char next = 0; next != '\n'; line += next) {
    if (!readable_before(fd, deadline)) throw std::runtime_error("did not print its port");
    if (::read(fd, &next, 1) != 1) throw std::runtime_error("exited without printing its port");
  }
  const auto blank = line.find(' ');
  port_ = static_cast<std::uint16_t>(std::stoi(line.substr(0, blank)));
  name_ = line.substr(blank + 1, line.size() - blank - 2);
}

void ServerProcess::end() {
  input_.reset();
  const UniqueFd exit(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  if (!exit || !readable_before(exit.get(), steady_clock::now() + kEndMax)) ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

std::chrono::nanoseconds ServerProcess::cpu() const {
  // Waits until the CPU time no longer grows: the server is idle.
  auto before = cpu_now(pid_);
  for (int tries = 0; tries < 1000; ++tries) {
    std::this_thread::sleep_for(1ms);
    const auto now = cpu_now(pid_);
    if (now == before) return now;
    before = now;
  }
  throw std::runtime_error(name_ + " is busy without requests");
}

std::size_t ServerProcess::resident_kib() const {
  std::ifstream status(fmt::format("/proc/{}/status", pid_));
  for (std::string word; status >> word;) {
    std::size_t size = 0;
    if (word == "VmRSS:" && status >> size) return size;
  }
  throw std::runtime_error(name_ + " has no VmRSS: it has exited");
}

}  // namespace distrun::bench
