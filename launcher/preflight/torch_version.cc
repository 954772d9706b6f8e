#include "launcher/preflight/torch_version.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "common/deadline.h"
#include "launcher/plan/command.h"

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

TorchVersion::TorchVersion(const Environment& environment, std::chrono::milliseconds limit)
    : deadline_(deadline_after(limit)) {
  start(environment);
}

void TorchVersion::start(const Environment& environment) {
  const std::string python = environment.get("PYTHON_EXEC").value_or("python3");
  const auto executable = find_program(python, environment);
  int ends[2];
  if (!executable) return;
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    without_answer_.reset();
    return;
  }
  answer_.reset(ends[0]);
  const UniqueFd to(ends[1]);
  const UniqueFd nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  auto started = spawn_process({.executable = *executable,
                                .arguments = {python, "-c", kAskTorch},
                                .environment = environment,
                                .in = nothing.get(),
                                .out = to.get(),
                                .err = nothing.get()});
  if (!started) return;
  python_ = std::move(*started);
  is_asked_ = true;
}

TorchVersion::~TorchVersion() { end(); }

void TorchVersion::end() {
  if (!std::exchange(is_asked_, false)) return;
  signal_group(python_, SIGKILL);
  if (is_readable(python_.pidfd.get(), deadline_after(kKillMax))) end_group(python_);
}

std::optional<std::string> TorchVersion::result() {
  if (!is_asked_) return without_answer_;
  const auto answer = read_to_end(answer_.get(), deadline_);
  const bool has_ended = answer && is_readable(python_.pidfd.get(), deadline_);
  const auto how = has_ended ? look_at_end(python_) : std::nullopt;
  end();
  if (!has_ended) return std::nullopt;
  if (how != ProcessEnd(ExitedWith{0})) return "";
  return answer->substr(0, answer->find_first_of(" \r\n"));
}

}  // namespace distrun
