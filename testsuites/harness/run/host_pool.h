// HostPool keeps a test host running for each test program.
//
//     HostPool hosts(io, {.programs = {"build/distrun-suites"}, …}, handlers);
//     const auto started = hosts.start_all();
//     …                                        // on_ready, and then:
//     hosts.process(0).fork(…);
//     …                                        // after on_lost has returned:
//     if (!hosts.replace(0)) … hosts.given_up(0) …
//
// The owner decides what a lost host means for its tests. Threads: only the thread of `io`.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "common/os/environment.h"
#include "distrun/result.h"
#include "testsuites/harness/run/planned_test.h"
#include "testsuites/harness/run/test_host_process.h"

namespace distrun {

class HostPool {
 public:
  struct Options {
    std::vector<std::string> programs;
    // Starts the host of the only program, which is then a name for people; else programs start
    // themselves.
    std::vector<std::string> command = {};
    Environment environment;
    bool keeps_terminal = false;  // A rank can then use it.
    std::chrono::milliseconds ready_timeout{0};
    int losses_max = 0;  // Consecutive losses, without passed_a_test() in between.
  };
  struct Handlers {
    std::function<void(std::size_t program)> on_ready;
    std::function<void(const RankForked&, UniqueFd pidfd)> on_forked;
    std::function<void(const RankNotForked&)> on_not_forked;
    std::function<void(const RankEnded&)> on_ended;
    // "the test program build/my_tests failed: …"
    std::function<void(std::size_t program, const std::string& text)> on_lost;
  };

  HostPool(boost::asio::io_context& io, Options options, Handlers handlers);
  HostPool(const HostPool&) = delete;
  HostPool& operator=(const HostPool&) = delete;

  Result<void> start_all();

  // Restarts the host. False if that fails or was tried too often: the host is then given up.
  bool replace(std::size_t program);

  // Ends one program's host, or all.
  void end(std::size_t program) { hosts_[program].process.reset(); }
  void end_all() { hosts_.clear(); }

  // REQUIRES: is_ready(program).
  TestHostProcess& process(std::size_t program) { return *hosts_[program].process; }
  bool is_ready(std::size_t program) const { return hosts_[program].ready; }

  // Why the host is not restarted; empty if it may be.
  const std::string& given_up(std::size_t program) const { return hosts_[program].given_up; }

  void passed_a_test(std::size_t program) { hosts_[program].losses = 0; }

  // The tests of all programs, in order; nullopt until all hosts are ready.
  std::optional<std::vector<LoadedTest>> tests() const;

  // REQUIRES: is_ready(program).
  const std::vector<TestInfo>& tests_of(std::size_t program) const { return hosts_[program].tests; }

  bool has(pid_t child) const;
  std::size_t size() const { return hosts_.size(); }

 private:
  struct Host {
    std::unique_ptr<TestHostProcess> process;
    bool ready = false;
    int losses = 0;
    std::string given_up;
    std::vector<TestInfo> tests;
  };

  Result<void> start(std::size_t program);

  boost::asio::io_context& io_;
  const Options options_;
  const Handlers handlers_;
  std::vector<Host> hosts_;
};

}  // namespace distrun
