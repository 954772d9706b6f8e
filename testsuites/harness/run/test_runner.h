// TestRunner runs tests: it keeps a test host per program, starts attempts as ranks fit, retries
// failed tests and reports events.
//
//     TestRunner runner(io, {.programs = {"build/distrun-suites"}, …}, on_event);
//     runner.load([&](Result<std::vector<LoadedTest>> tests) {
//       …
//       runner.run({.tests = chosen}, [&] { … after the last event … });
//     });
//     io.run();
//
// A host that dies or stops answering is replaced. If one test was running there, it fails. If
// several were, each runs again, alone, because any may be the cause; so does a test that had not
// reached the host. A host that dies too often is given up, and its remaining tests fail.
//
// Threads: only the thread of `io`.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "common/os/environment.h"
#include "distrun/result.h"
#include "testsuites/harness/run/attempt_supervisor.h"
#include "testsuites/harness/run/planned_test.h"
#include "testsuites/harness/run/test_events.h"
#include "testsuites/harness/run/test_node.h"

namespace distrun {

class TestRunner {
 public:
  struct Options {
    std::vector<std::string> programs;
    std::vector<std::string> command = {};  // As in HostPool::Options.
    Environment environment;
    std::string host;    // This machine's name, which matters with several nodes.
    std::string folder;  // For temporary files.
    int jobs = 1;        // Ranks at a time.
    int attempts_max = 1;
    std::uint64_t seed = 1234;  // The initial seed of every rank.
    bool fail_fast = false;
    bool no_skips = false;     // A skip is a failure.
    bool keeps_order = false;  // Start tests in the order of the plan.
    // If false, TestsEnded has only the last of a test's passed repetitions, without ranks, to save
    // memory.
    bool keeps_all_results = true;
    bool fresh = false;         // Ranks execute the program again instead of forking.
    bool runs_program = false;  // AttemptRun::Options::is_program, for every test.
    // This rank runs under the command `under`, with the terminal.
    std::optional<int> rank_under = {};
    std::vector<std::string> under;
    AttemptSupervisor::Options limits;  // The plan overrides its timeout.
    // For a host to load and list its tests.
    std::chrono::milliseconds host_timeout = std::chrono::minutes(2);
    int host_losses_max = 20;  // Consecutive, without a passed test in between.

    // Other nodes. The ranks of a test are divided among this one and them (rank_spread.h).
    using MakeNode = std::function<std::unique_ptr<TestNode>(boost::asio::io_context& io,
                                                             TestNode::Handlers handlers)>;
    std::vector<MakeNode> more_nodes = {};
    std::map<std::string, std::string> variables = {};  // More for each rank on this node.
    // As in AttemptRun::Options.
    std::string store_host = {}, store_address = {};
  };

  TestRunner(boost::asio::io_context& io, Options options,
             std::function<void(const TestEvent&)> on_event);
  ~TestRunner();
  TestRunner(const TestRunner&) = delete;
  TestRunner& operator=(const TestRunner&) = delete;

  // Starts the hosts. Fails if one cannot start or is not a test host.
  void load(std::function<void(Result<std::vector<LoadedTest>>)> on_loaded);

  // Reports events from AttemptBegun to TestsEnded, then calls on_end.
  void run(TestPlan plan, std::function<void()> on_end);

  // Starts no more tests and ends running ones; on_end still comes.
  void interrupt();
  // Starts no more tests; running ones go on.
  void stop(const std::string& why);

  // Reports PlacesRead for each running test, once its ranks have named their collectives.
  void look();

  // Sends SIGSTOP to every rank, then calls `on_suspended`. Until continue_run(), no test starts
  // and time does not count.
  void suspend(std::function<void()> on_suspended);
  void continue_run();

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace distrun
