// FlightRecorders asks the flight recorders of NCCL for what the workers of this node have queued
// on their GPUs, and reads the answers.
//
//     FlightRecorders recorders(plan);
//     recorders.begin_attempt(place);
//     recorders.ask({Rank(0), Rank(1)});   // The workers that run.
//     recorders.begin_wait();
//     while (recorders.is_waiting()) …     // Serve the store meanwhile.
//     recorders.line();                    // "rank 1 has not entered all_reduce, number 8 of …"
//
// ProcessGroupNCCL of PyTorch looks once a second whether it is asked, through a pipe
// (TORCH_NCCL_DEBUG_INFO_PIPE_FILE), and writes a file. It also writes the file when its watchdog
// finds that a collective has timed out. Workers without such a group have no pipe.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include <sys/stat.h>

#include "common/operations/operation.h"
#include "common/rank.h"
#include "launcher/plan/plan.h"
#include "launcher/plan/worker_environment.h"

namespace distrun {

class FlightRecorders {
 public:
  // `plan` must outlive it.
  explicit FlightRecorders(const LaunchPlan& plan) : plan_(plan) {}

  void begin_attempt(const RunPlace& place);

  // Whether the worker's watchdog has written a file in this attempt that was not read.
  bool has_new_dump(LocalRank worker) const;

  void ask(const std::vector<Rank>& running);

  // is_waiting() tells whether a worker that was asked has not answered; no longer than two and a
  // half seconds after begin_wait().
  void begin_wait();
  bool is_waiting();

  // What ranks wait for, and who is missing, by the answers since ask(); empty if no rank waits.
  // The answers of ranks that make progress do not fit together, because they are up to a second
  // apart: a rank waits in an operation that it has started two seconds ago. Includes workers that
  // have ended after their watchdog has written a file.
  std::string line();

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
    Version seen;           // What was there before the attempt, or was read.
    bool is_asked = false;  // And has not answered.
    bool is_final = false;  // Its watchdog has written the file: it may not answer any more.
    std::vector<Operation> operations;  // Of the last file, unless that was an earlier answer.
  };

  static Version version(const std::string& file);
  void look();

  const LaunchPlan& plan_;
  std::vector<Worker> workers_;  // By local rank; empty if they cannot be asked.
  std::chrono::steady_clock::time_point deadline_;
};

}  // namespace distrun
