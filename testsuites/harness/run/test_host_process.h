// TestHostProcess is the runner's side of a test host (host_messages.h): its process and socket.
//
//     auto host = TestHostProcess::start(io, {"build/distrun-suites"}, environment, handlers);
//     host->fork({.key = 7, .test = "gloo.CommTest.test_sum", …}, std::move(descriptors));
//
// on_lost comes last; every running rank is lost with the host.
// Threads: only the thread of `io`.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "common/os/environment.h"
#include "common/os/unique_fd.h"
#include "distrun/result.h"
#include "distrun/test_info.h"
#include "testsuites/harness/protocol/host_messages.h"

namespace distrun {

class TestHostProcess {
 public:
  struct Handlers {
    std::function<void(std::vector<TestInfo> tests)> on_ready;
    std::function<void(const RankForked&, UniqueFd pidfd)> on_forked;
    std::function<void(const RankNotForked&)> on_not_forked;
    std::function<void(const RankEnded&)> on_ended;
    std::function<void(const std::string& reason)> on_lost;  // "signal SIGSEGV (11)\n…"
  };

  // `command` begins with the program. Fails if it cannot be started. A program that is not a test
  // host, or does not list its tests within `ready_timeout`, is lost. With `keeps_terminal` a rank
  // can use the terminal (ForkRank::under).
  static Result<std::unique_ptr<TestHostProcess>> start(boost::asio::io_context& io,
                                                        const std::vector<std::string>& command,
                                                        const Environment& environment,
                                                        bool keeps_terminal, Handlers handlers,
                                                        std::chrono::milliseconds ready_timeout);
  // Kills the process and reaps it.
  ~TestHostProcess();

  // `descriptors` are stdin, stdout, stderr and the result channel.
  void fork(const ForkRank& request, std::vector<UniqueFd> descriptors);

  // Whether the request with that key has not reached the host, and never will if the host is lost.
  bool is_unsent(std::uint64_t key) const;

  // Declares that the host does not answer and is lost. on_lost comes from the event loop.
  void give_up(const std::string& reason);

  pid_t pid() const;

 private:
  struct Impl;
  explicit TestHostProcess(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace distrun
