// AttemptPart is the ranks of one attempt of a test that run on one node.
//
//     auto part = node.make_part({.test = test, .first = 2, .count = 2, .ranks = 4, …}, handlers);
//     part->begin();
//     part->ask({2, 3});                   // on_seen, then on_answered for each
//     part->end(2);
//     part->finish(/*interrupted=*/false);  // on_facts
//
// Ranks are numbered as in the attempt. LocalPart is on this machine; RemotePart passes everything
// on to another node. After on_facts, or its destruction, a part calls no handler.
// Threads: only the thread of the event loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "distrun/test_info.h"
#include "evidence/connections/rank_sockets.h"
#include "evidence/report/where_ranks_are.h"
#include "store/network/client_processes.h"
#include "testsuites/harness/run/verdict.h"

namespace distrun {

struct PartOptions {
  TestInfo test;
  std::size_t program = 0;  // Whose test host starts the ranks.
  int first = 0, count = 1,
      ranks = 1;            // Its first rank, how many it has, and those of the attempt.
  int node = 0, nodes = 1;  // Of those on which the attempt runs.
  std::string backend;
  std::uint64_t seed = 0;
  std::uint64_t first_key = 0;    // Of rank 0 of the attempt.
  std::string store_host;         // Where the ranks find their TCP store …
  std::uint16_t store_port = 0;   // … or 0: they meet in a file.
  bool fresh = false;             // Ranks execute the program again instead of forking.
  std::optional<int> rank_under;  // Runs under `under`, with the terminal.
  std::vector<std::string> under;
  bool is_program = false;  // AttemptRun::Options::is_program.
  std::string problem;      // Why no rank can start; mostly empty.
};

// What its ranks are doing, from outside.
struct PartView {
  std::vector<RankStacks> stacks;
  std::vector<RankSocket> sockets;
  std::vector<int> asked;  // After look(): the ranks that will tell their collective.
};

struct PartHandlers {
  std::function<void(int rank)> on_noted;  // It has ended or failed; called once for each rank.
  std::function<void(int rank, RankOutcome outcome)> on_over;  // Its process and output have ended.
  std::function<void(PartView view)> on_seen;
  std::function<void(int rank)> on_answered;
  std::function<void(PartView view)> on_looked;
  std::function<void(int rank, const std::string& text)> on_collective;
  std::function<void(std::vector<RankFacts> facts)> on_facts;  // Without RankFacts::order.
  // What processes of this machine wait for in the ranks' store; may be empty.
  std::function<WaitsOfProcesses()> waits;
};

class AttemptPart {
 public:
  virtual ~AttemptPart() = default;

  virtual void begin() = 0;
  // The ranks' time is up: reads where they are, then asks them.
  virtual void ask(const std::vector<int>& ranks) = 0;
  virtual void end(int rank) = 0;
  // Reads where the ranks are, and asks for their collectives; they continue.
  virtual void look() = 0;
  // Unless interrupted, first gives up a test host that does not answer.
  virtual void finish(bool interrupted) = 0;

  virtual bool has_reached_host() const = 0;
  // The test host of the ranks is lost.
  virtual void host_lost() = 0;
  virtual bool has_lost_host() const = 0;

  // A rank that is being forked stops once it is known.
  virtual void suspend() = 0;
  virtual void continue_ranks() = 0;
  virtual bool all_are_known() const = 0;
};

}  // namespace distrun
