#include "launcher/preflight/torch_version.h"

#include <algorithm>
#include <array>
#include <csignal>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "common/deadline.h"
#include "common/os/unique_fd.h"
#include "launcher/plan/command.h"
#include "launcher/process/worker_process.h"

namespace distrun {

namespace {

using Deadline = std::chrono::steady_clock::time_point;

constexpr const char* kAskTorch = "import importlib.metadata as m; print(m.version('torch'))";
constexpr std::size_t kVersionBytesMax = 256;
constexpr std::chrono::milliseconds kKillMax = std::chrono::seconds(1);

bool is_readable(int descriptor, Deadline deadline) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  pollfd readable{.fd = descriptor, .events = POLLIN, .revents = 0};
  const auto milliseconds = std::max<std::chrono::milliseconds::rep>(left.count(), 0);
  return ::poll(&readable, 1, static_cast<int>(milliseconds)) == 1;
}

// nullopt if `pipe` is still open at the deadline.
std::optional<std::string> read_to_end(int pipe, Deadline deadline) {
  std::string text;
  while (text.size() < kVersionBytesMax && is_readable(pipe, deadline)) {
    std::array<char, kVersionBytesMax> bytes{};
    const ssize_t size = ::read(pipe, bytes.data(), bytes.size());
    if (size <= 0) return text;
    text.append(bytes.data(), static_cast<std::size_t>(size));
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> torch_version(const Environment& environment,
                                         std::chrono::milliseconds limit) {
  const auto deadline = deadline_after(limit);
  const std::string python = environment.get("PYTHON_EXEC").value_or("python3");
  const auto executable = find_program(python, environment);
  int ends[2];
  if (!executable) return "";
  if (::pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
  const UniqueFd from(ends[0]);
  UniqueFd to(ends[1]);
  const UniqueFd nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const auto asked = spawn_process({.executable = *executable,
                                    .arguments = {python, "-c", kAskTorch},
                                    .environment = environment,
                                    .in = nothing.get(),
                                    .out = to.get(),
                                    .err = nothing.get()});
  if (!asked) return "";
  to.reset();
  auto answer = read_to_end(from.get(), deadline);
  if (!answer || !is_readable(asked->pidfd.get(), deadline)) {
    answer.reset();
    signal_group(*asked, SIGKILL);
    if (!is_readable(asked->pidfd.get(), deadline_after(kKillMax))) return answer;
  }
  const auto end = look_at_end(*asked);
  end_group(*asked);
  if (!answer) return answer;
  if (end != ProcessEnd(ExitedWith{0})) return "";
  return answer->substr(0, answer->find_first_of(" \r\n"));
}

}  // namespace distrun
