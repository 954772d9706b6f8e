// AttemptRun runs one attempt of a test on a test host: one process for each rank, what these print
// and tell, their ends, and what they leak.
//
//     AttemptRun run(io, host, leaked, {.test = test, .ranks = 4, …}, on_end);
//     run.begin();
//     run.interrupt();                     // on_end comes all the same
//     run.suspend();  …;  run.continue_ranks();  // the time between them does not count
//
// A host that leaves it without an answer is given up (TestHostProcess::give_up).
//
// To the host its ranks are keys, from `first_key` on; who has the host passes on what it says of
// them.  on_end comes once, from the event loop.  Threads: all on that of `io`.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>

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
    std::uint64_t seed = 1234;  // PyTorch's own tests have this one.
    std::string folder;         // For this attempt alone; it is made, and removed at the end.
    std::string nonce;          // Of the run: processes are known by it and their key.
    std::uint64_t first_key = 0;
    bool fresh = false;                  // Ranks are programs executed again, not forks.
    std::optional<int> rank_under = {};  // That rank runs under the command, with the terminal.
    std::vector<std::string> under;      // {"gdb", "--args"}
    AttemptSupervisor::Options limits;
  };

  AttemptRun(boost::asio::io_context& io, TestHostProcess& host, LeakedRankProcesses& leaked,
             Options options, std::function<void(AttemptResult)> on_end);
  ~AttemptRun();
  AttemptRun(const AttemptRun&) = delete;
  AttemptRun& operator=(const AttemptRun&) = delete;

  void begin();
  void interrupt();
  bool has_reached_host() const;  // It knows of a rank.
  // A rank that is being forked stops as soon as it is known.
  void suspend();
  bool all_are_known() const;
  void continue_ranks();

  // What the host says; the keys are this run's.
  void forked(const RankForked& forked, UniqueFd pidfd);
  void not_forked(const RankNotForked& not_forked);
  void ended(const RankEnded& ended);
  void host_lost();

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace distrun
