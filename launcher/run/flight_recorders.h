// FlightRecorders asks the flight recorders of NCCL what the workers of this node have queued on
// their GPUs, and reads the answers.
//
//     FlightRecorders recorders(plan);
//     recorders.begin_attempt(place);
//     recorders.ask({Rank(0), Rank(1)}, 2s);   // The workers that run.
//     while (recorders.is_waiting()) …     // Serve the store meanwhile.
//     recorders.line();                    // "rank 1 has not entered all_reduce, number 8 of …"
//     recorders.keep();                    // The attempt does not go on.
//     recorders.end_attempt();
//     for (const RankFlight& one : recorders.kept()) …     // Send it to node 0,
//     recorders.take(one);                                 // which takes it,
//     recorders.line_of_all_nodes();                       // and compares all ranks.
//
// ProcessGroupNCCL of PyTorch looks once a second whether it is asked, through a pipe
// (TORCH_NCCL_DEBUG_INFO_PIPE_FILE), and answers with a file. It also writes the file when its
// watchdog finds that a collective has timed out. Workers without such a group have no pipe.
#pragma once

#include <chrono>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <sys/stat.h>

#include "common/operations/operation.h"
#include "common/rank.h"
#include "launcher/nodes/rank_flight.h"
#include "launcher/plan/plan.h"
#include "launcher/plan/worker_environment.h"

namespace distrun {

class FlightRecorders {
 public:
  // `plan` must outlive this.
  explicit FlightRecorders(const LaunchPlan& plan) : plan_(plan) {}

  void begin_attempt(const RunPlace& place);

  // Forgets earlier answers. `patience`: how long is_waiting() waits for a worker.
  void ask(const std::vector<Rank>& running, std::chrono::milliseconds patience);

  // Whether a worker has not answered, and there is still time. A worker that has once not answered
  // in time is not waited for again.
  bool is_waiting();

  // What ranks wait for, and who is missing, by the answers; empty if no rank waits. The answers of
  // different ranks are up to a second apart. Therefore, a collective that began less than two
  // seconds before the answer does not count as a wait: otherwise, ranks that make progress would
  // seem to wait for each other.
  std::string line();

  // The same by the files that watchdogs have written in this attempt, without asking; keeps them.
  // Empty if `worker` has written none, or if none was written since the last call.
  std::string line_of_watchdogs(LocalRank worker);

  // The answers, also those that are still to come, tell where the attempt has stopped, for the
  // comparison of all nodes.
  void keep();

  // Also keeps what watchdogs have written unasked. Removes the pipes that would remain next to log
  // files. Requires that no worker is left.
  void end_attempt();

  const std::vector<RankFlight>& kept() const { return kept_; }
  void take(const RankFlight& of_other_node) { others_.push_back(of_other_node); }

  // As line(), of what is kept on all nodes; empty if nothing came from other nodes.
  std::string line_of_all_nodes() const;

 private:
  struct Version {  // Of a file.
    ino_t inode = 0;
    std::chrono::nanoseconds changed{0};
    off_t size = 0;
    bool operator==(const Version&) const = default;
  };

  struct Worker {
    Rank rank{0};
    FlightFiles files;
    Version seen;            // What was there when it was asked, or what was read since then.
    Version answer;          // The last one.
    Version reported;        // By line_of_watchdogs(), or what was there before the attempt.
    bool is_asked = false;   // And has not answered.
    bool is_silent = false;  // It has not answered in time.
    bool has_answered = false;
    std::vector<Operation> operations;  // Of the answer, as first_and_last() says.
  };

  static Version version(const std::string& file);
  static bool has_unreported_dump(const Worker& worker);
  bool may_be_late_answer(const Worker& worker) const;
  // Reads the file if it is neither `than` nor incomplete.
  void read_newer(Worker& worker, const Version& than);

  const LaunchPlan& plan_;
  std::chrono::milliseconds patience_{0};
  int attempt_ = 0;
  std::vector<Worker> workers_;  // By local rank; empty if they cannot be asked.
  std::map<std::string, std::set<int>> members_;
  std::vector<RankFlight> kept_, others_;
  std::chrono::steady_clock::time_point deadline_, looked_;
  std::chrono::system_clock::time_point asked_at_;
};

}  // namespace distrun
