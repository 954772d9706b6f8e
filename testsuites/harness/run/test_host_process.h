// TestHostProcess is a test host (host_messages.h) as the runner has it: a process, and the socket
// to it.
//
//     auto host = TestHostProcess::start(io, "build/distrun-suites", environment, handlers);
//     host->fork({.key = 7, .test = "gloo.CommTest.test_sum", …}, std::move(descriptors));
//
// After on_lost nothing more comes of it: every rank that was running has gone with it.
// Threads: all on that of `io`.
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
    std::function<void(const std::string& reason)> on_lost;  // "it ended: signal SIGSEGV (11)\n…"
  };

  // Fails where the program cannot be started; one that is no test host is lost, as is one that
  // does not say within `ready_timeout` what tests it has.  `keeps_terminal`: a rank may be given
  // it (ForkRank::under).
  static Result<std::unique_ptr<TestHostProcess>> start(boost::asio::io_context& io,
                                                        const std::string& program,
                                                        const Environment& environment,
                                                        bool keeps_terminal, Handlers handlers,
                                                        std::chrono::milliseconds ready_timeout);
  // Ends the process, and reaps it.
  ~TestHostProcess();

  // `descriptors` are in, out, err and the result channel.
  void fork(const ForkRank& request, std::vector<UniqueFd> descriptors);

  // Whether the host has not been given the request with that key, and never will be if it is lost.
  bool is_unsent(std::uint64_t key) const;

  // It is lost: to be called where it does not answer.  on_lost comes from the event loop.
  void give_up(const std::string& reason);

  pid_t pid() const;

 private:
  struct Impl;
  explicit TestHostProcess(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace distrun
