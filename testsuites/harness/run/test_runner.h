// TestRunner runs tests: it keeps a test host for each program, starts attempts as their ranks fit,
// tries again what failed where it may, and tells what happens.
//
//     TestRunner runner(io, {.programs = {"build/distrun-suites"}, …}, on_event);
//     runner.load([&](Result<std::vector<LoadedTest>> tests) {
//       …
//       runner.run({.tests = chosen}, [&] { … the last event has been told … });
//     });
//     io.run();
//
// A host that dies, or does not answer any more, is replaced.  If one test was running there, that
// one has failed; of several nobody knows which it was, so each of them is run again, alone, as is
// one that it had not heard of.  One that dies again and again is
// given up, and what was left of its tests has failed.
//
// Threads: all on that of `io`.
#pragma once

#include <chrono>
#include <functional>
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

namespace distrun {

class TestRunner {
 public:
  struct Options {
    std::vector<std::string> programs;
    Environment environment;
    std::string folder;  // For what is temporary.
    int jobs = 1;        // Ranks at a time.
    int attempts_max = 1;
    std::uint64_t seed = 1234;  // That every rank begins with.
    bool fail_fast = false;
    bool no_skips = false;     // A skip is a failure.
    bool keeps_order = false;  // Tests begin in the order of the plan.
    // TestsEnded has all results.  Else, of the repetitions of a test that have passed, it has the
    // last one, without its ranks: many of them take little memory.
    bool keeps_all_results = true;
    bool fresh = false;  // Ranks are programs executed again, not forks.
    // This rank runs under the command `under`, with the terminal.
    std::optional<int> rank_under = {};
    std::vector<std::string> under;
    AttemptSupervisor::Options limits;  // Its timeout is the plan's.
    // For a host to load and to say what tests it has.
    std::chrono::milliseconds host_timeout = std::chrono::minutes(2);
    int host_losses_max = 20;  // In a row, with no test that passes: more, and it is given up.
  };

  TestRunner(boost::asio::io_context& io, Options options,
             std::function<void(const TestEvent&)> on_event);
  ~TestRunner();
  TestRunner(const TestRunner&) = delete;
  TestRunner& operator=(const TestRunner&) = delete;

  // Starts the hosts.  Fails where one cannot be started, or is none.
  void load(std::function<void(Result<std::vector<LoadedTest>>)> on_loaded);

  // Tells events from AttemptBegun to TestsEnded, then calls on_end.
  void run(TestPlan plan, std::function<void()> on_end);

  // Nothing more is started, what runs is ended; on_end comes all the same.
  void interrupt();

  // Sends SIGSTOP to every rank, then calls `on_suspended`.  Until continue_run() no test starts,
  // and the time does not count.
  void suspend(std::function<void()> on_suspended);
  void continue_run();

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace distrun
