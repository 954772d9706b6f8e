#include "cli/check_first.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common/os/unique_fd.h"
#include "distrun/process_end.h"
#include "launcher/process/worker_process.h"

namespace distrun {

namespace {

constexpr auto kFlagsOfCheck = std::to_array<std::string_view>(
    {"nnodes", "node-rank", "master-addr", "master-port", "rdzv-endpoint", "rdzv-conf", "rdzv-id",
     "local-addr", "hosts", "ssh", "pass-env", "standalone", "heartbeat", "rdzv-backend", "help"});

// Passes on signals until the check has ended.
ProcessEnd end_of(const WorkerProcess& check, const std::vector<int>& passed_on) {
  sigset_t set, before;
  ::sigemptyset(&set);
  for (const int signal : passed_on) ::sigaddset(&set, signal);
  ::pthread_sigmask(SIG_BLOCK, &set, &before);
  const UniqueFd signals(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  std::optional<ProcessEnd> end;  // A check limits its waits.
  while (!(end = look_at_end(check))) {
    std::array<pollfd, 2> ready = {{{.fd = check.pidfd.get(), .events = POLLIN, .revents = 0},
                                    {.fd = signals.get(), .events = POLLIN, .revents = 0}}};
    ::poll(ready.data(), ready.size(), /*timeout=*/-1);
    signalfd_siginfo received{};
    if (::read(signals.get(), &received, sizeof(received)) == sizeof(received)) {
      signal_process(check, static_cast<int>(received.ssi_signo));
    }
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return *end;
}

}  // namespace

std::vector<LaunchFlag> flags_of_check() {
  std::vector<LaunchFlag> flags;
  for (const LaunchFlag& flag : launch_flags()) {
    if (std::count(kFlagsOfCheck.begin(), kFlagsOfCheck.end(), flag.name) > 0)
      flags.push_back(flag);
  }
  return flags;
}

Result<int> check_first(const CommandLine& line, const Environment& environment,
                        const LaunchOptions& options) {
  std::vector<std::string> arguments = {"distrun", "check"};
  for (const LaunchFlag& flag : flags_of_check()) {
    const GivenFlag* given = line.find(flag.name);
    if (given == nullptr) continue;
    arguments.push_back(flag.takes_value() ? fmt::format("--{}={}", flag.name, given->value)
                                           : fmt::format("--{}", flag.name));
  }
  const UniqueFd nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const auto check = spawn_process({.executable = "/proc/self/exe",
                                    .arguments = std::move(arguments),
                                    .environment = environment,
                                    .in = nothing.get(),
                                    .kept = options.engine_socket.value_or(-1),
                                    .keeps_session = true});
  if (!check) return check.error();
  const ProcessEnd end = end_of(*check, options.end_signals);
  end_group(*check);
  return exit_status(end);
}

}  // namespace distrun
