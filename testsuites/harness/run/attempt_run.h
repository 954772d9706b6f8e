// AttemptRun runs one attempt of a test, with a process per rank, on one or more nodes, and judges
// it.
//
//     AttemptRun run(io, {&node}, {.test = test, .ranks = 4, …}, on_end);
//     run.begin();
//     run.interrupt();                     // on_end still comes
//     run.suspend();  …;  run.continue_ranks();  // the time between them does not count
//
// Each node has its part of the ranks (attempt_part.h). The ranks of one node meet in a file. Ranks
// of several nodes, and of a program, meet in a store, which is here. on_end is called once, from
// the event loop. Threads: only the thread of `io`.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "evidence/report/where_ranks_are.h"
#include "testsuites/harness/run/attempt_supervisor.h"
#include "testsuites/harness/run/test_events.h"
#include "testsuites/harness/run/test_node.h"

namespace distrun {

class AttemptRun {
 public:
  struct Options {
    TestInfo test;
    std::size_t program = 0;
    int ranks = 1;
    int attempt = 1;
    std::string backend = "gloo";
    std::uint64_t seed = 1234;  // As in PyTorch's tests.
    std::uint64_t first_key = 0;
    bool fresh = false;                  // Ranks execute the program again instead of forking.
    std::optional<int> rank_under = {};  // Runs under `under`, with the terminal.
    std::vector<std::string> under;      // {"gdb", "--args"}
    // The test is a program (session/tested_program.h): its exit status decides, and its ranks have
    // a TCP store.
    bool is_program = false;
    // With several nodes: where their store listens, and the address that ranks connect to.
    std::string store_host, store_address;
    AttemptSupervisor::Options limits;
  };

  // `nodes` outlive the run; their number is that of rank_spread() for options.ranks.
  AttemptRun(boost::asio::io_context& io, const std::vector<TestNode*>& nodes, Options options,
             std::function<void(AttemptResult)> on_end);
  ~AttemptRun();
  AttemptRun(const AttemptRun&) = delete;
  AttemptRun& operator=(const AttemptRun&) = delete;

  void begin();
  void interrupt();
  // Reads where its ranks are, and asks for their collectives; they continue. `on_seen` is called
  // within seconds, but not if an earlier look() has not ended or the attempt has.
  void look(std::function<void(Whereabouts)> on_seen);
  // A rank that is being forked stops once it is known.
  void suspend();
  bool all_are_known() const;
  void continue_ranks();

  // Of a node on which it runs.
  bool has_reached_host(std::size_t node) const;
  bool has_lost_host(std::size_t node) const;
  void host_lost(std::size_t node);

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace distrun
