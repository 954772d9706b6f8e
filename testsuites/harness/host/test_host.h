// A test host forks the ranks of its tests when the runner asks, and reports their ends
// (host_messages.h).
//
//     serve_tests(0, {.tests = registered_tests(), .what_forbids = …, .run_rank = …});
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/os/unique_fd.h"
#include "distrun/test_info.h"
#include "testsuites/harness/protocol/host_messages.h"

namespace distrun {

struct TestHostWork {
  std::vector<TestInfo> tests;
  // Why the rank cannot be forked; nullopt if it can.
  std::function<std::optional<std::string>(const ForkRank&)> what_forbids;
  // Runs in the rank, which has its descriptors and variables. Must not return.
  std::function<void(const ForkRank&, UniqueFd result)> run_rank;
};

// Serves the runner until the socket closes, then exits; remaining ranks get SIGKILL.
[[noreturn]] void serve_tests(int socket, const TestHostWork& work);

// In the rank: executes `command`, under the request's debugger if it has one.
[[noreturn]] void execute_in_rank(const ForkRank& fork, const std::vector<std::string>& command);

// In the rank: writes "WHAT: <errno's text>" to stderr, and exits.
[[noreturn]] void fail_in_rank(const std::string& what);

}  // namespace distrun
