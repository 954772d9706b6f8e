// AttemptRun runs one attempt of a test on a test host, with a process per rank, and collects
// output, results, ends and leaked processes.
//
//     AttemptRun run(io, host, leaked, stacks, {.test = test, .ranks = 4, …}, on_end);
//     run.begin();
//     run.interrupt();                     // on_end still comes
//     run.suspend();  …;  run.continue_ranks();  // the time between them does not count
//
// The host identifies ranks by keys, from `first_key` on; its owner passes on its messages about
// them. A host that does not answer is given up (TestHostProcess::give_up). on_end is called once,
// from the event loop. Threads: only the thread of `io`.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "evidence/report/where_ranks_are.h"
#include "evidence/stacks/stack_collector.h"
#include "testsuites/harness/run/attempt_supervisor.h"
#include "testsuites/harness/run/leaked_rank_processes.h"
#include "testsuites/harness/run/test_events.h"
#include "testsuites/harness/run/test_host_process.h"

namespace distrun {

class AttemptRun {
 public:
  struct Options {
    TestInfo test;
    int ranks = 1;
    int attempt = 1;
    std::string backend = "gloo";
    std::uint64_t seed = 1234;  // As in PyTorch's tests.
    std::string folder;         // Exists only during this attempt.
    std::string nonce;          // The run's; with the key it identifies processes.
    std::uint64_t first_key = 0;
    bool fresh = false;                  // Ranks execute the program again instead of forking.
    std::optional<int> rank_under = {};  // Runs under `under`, with the terminal.
    std::vector<std::string> under;      // {"gdb", "--args"}
    // The test is a program (session/tested_program.h): its exit status decides, and its ranks have
    // a TCP store.
    bool is_program = false;
    AttemptSupervisor::Options limits;
  };

  AttemptRun(boost::asio::io_context& io, TestHostProcess& host, LeakedRankProcesses& leaked,
             StackCollector& stacks, Options options, std::function<void(AttemptResult)> on_end);
  ~AttemptRun();
  AttemptRun(const AttemptRun&) = delete;
  AttemptRun& operator=(const AttemptRun&) = delete;

  void begin();
  void interrupt();
  // Reads where its ranks are, and asks for their collectives; they continue. `on_seen` is called
  // within seconds, but not if an earlier look() has not ended or the attempt has.
  void look(std::function<void(Whereabouts)> on_seen);
  bool has_reached_host() const;
  // A rank that is being forked stops once it is known.
  void suspend();
  bool all_are_known() const;
  void continue_ranks();

  // Messages from the host about this run's keys.
  void forked(const RankForked& forked, UniqueFd pidfd);
  void not_forked(const RankNotForked& not_forked);
  void ended(const RankEnded& ended);
  void host_lost();

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace distrun
