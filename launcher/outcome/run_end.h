// RunEnd says how a run ended and who is to blame: the supervisor reaches it,
// the summary prints it, and distrun's exit status comes from it.
//
//     return exit_status(run_end);
#pragma once

#include <optional>
#include <vector>

#include "common/rank.h"
#include "distrun/process_end.h"
#include "distrun/result.h"
#include "launcher/outcome/nodes_verdict.h"

namespace distrun {

struct WorkerOutcome {
  std::optional<ProcessEnd> end;  // Nothing where it was never started, or could not be killed.
  bool started = false;
  bool leaked = false;  // A process that it leaked held its output open.
};

struct RunEnd {
  enum class Cause {
    kSucceeded,     // Every worker exited with 0.
    kWorkerFailed,  // `culprit` was the first that did not.
    kSpawnFailed,   // `culprit` could not be started; `error` says why.
    kInterrupted,   // `signal` told distrun to end.
    kTimedOut,      // The run's time was over.
    kOutputLost,    // The workers' output could not be written; `error` says why.
    kGuardLost,     // distrun's guard process was killed.
    kNotJoined,     // Of several nodes, this one was not let in, or found none: see `error`.
    kOtherNode,     // Of several nodes, another one ended the run: `verdict` says why.
  };
  Cause cause = Cause::kSucceeded;
  int attempt = 0;  // That ended so: from 0 on.
  std::optional<LocalRank> culprit;
  std::optional<Error> error;
  int signal = 0;
  std::vector<WorkerOutcome> workers;   // By local rank.
  std::vector<LocalRank> failures;      // Who did not succeed, in the order of their ends.
  std::optional<NodesVerdict> verdict;  // Of all nodes, where there are several.
};

// The statuses that distrun itself gives; docs/exit-codes.md lists all.
inline constexpr int kExitUsage = 2;
inline constexpr int kExitTimedOut = 124;
inline constexpr int kExitInternal = 125;
inline constexpr int kExitNotExecutable = 126;
inline constexpr int kExitNotFound = 127;

// 0; the culprit's own status, or 128 + signal; 124 for a time-out; 126 or 127 for a program that
// could not be executed; 128 + signal where a signal told distrun to end; 125 otherwise.
// Of several nodes all have the verdict's.
int exit_status(const RunEnd& run_end);

// The status for an error that kept the run from starting.
int exit_status(const Error& error);

}  // namespace distrun
