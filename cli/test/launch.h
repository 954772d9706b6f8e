// For tests of `distrun launch`: real launches, and helpers to inspect them.
#pragma once

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/os/unique_fd.h"
#include "common/test/folder.h"
#include "launcher/test/run_program.h"

namespace distrun::testing {

inline ProgramResult launch(std::vector<std::string> arguments,
                            const ProgramOptions& options = {}) {
  arguments.insert(arguments.begin(), {DISTRUN_PROGRAM, "launch"});
  ProgramResult result = run_program(arguments, options);
  EXPECT_FALSE(result.timed_out) << result.err;
  return result;
}

inline ProgramResult launch_shell(int workers, const std::string& script,
                                  const ProgramOptions& options = {}) {
  return launch({"--nproc-per-node", std::to_string(workers), "sh", "-c", script}, options);
}

// A loopback address for node 0. Each call gives another one, so tests can run in parallel.
inline std::string own_address() {
  static int calls = 0;
  const int pid = ::getpid();
  return fmt::format("127.{}.{}.{}", 100 + ++calls % 100, 1 + (pid >> 8) % 250, 1 + pid % 250);
}

// For node `number` of two, one of which the time limit ends.
inline std::vector<std::string> flags_of_node(int number, const std::string& address) {
  return {"--nnodes",      "2",     "--node-rank", std::to_string(number),
          "--master-addr", address, "--timeout",   number == 0 ? "3" : "100"};
}

inline std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> found;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) found.push_back(line);
  return found;
}

// Under `nohup make test`, and in a script's background job, children inherit ignored signals.
class SignalsByDefault {
 public:
  SignalsByDefault() {
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) ::signal(signal, SIG_DFL);
  }
};

inline bool is_alive(int pid) { return ::kill(pid, 0) == 0; }

// A descriptor for a process that may not be our child; invalid if it has ended.
inline UniqueFd watch(const std::string& pid) {
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, std::stoi(pid), 0)));
}

// Waits for the end of `process`: signals take effect a moment later.
inline bool ends(const UniqueFd& process) {
  if (!process) return true;
  pollfd ended{.fd = process.get(), .events = POLLIN, .revents = 0};
  return ::poll(&ended, 1, 10'000) == 1;
}

}  // namespace distrun::testing
