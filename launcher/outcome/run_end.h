// RunEnd says how a run ended and which worker caused it. The supervisor creates it; distrun's
// summary and exit status come from it.
//
//     return exit_status(run_end);
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/rank.h"
#include "distrun/process_end.h"
#include "distrun/result.h"
#include "launcher/outcome/nodes_verdict.h"

namespace distrun {

struct WorkerOutcome {
  std::optional<ProcessEnd> end;  // nullopt: never started, or could not be killed.
  bool started = false;
  bool leaked = false;  // A leaked process kept its output open.
};

struct RunEnd {
  enum class Cause {
    kSucceeded,     // Every worker exited with 0.
    kWorkerFailed,  // `culprit` failed first.
    kSpawnFailed,   // `culprit` could not be started; `error` says why.
    kInterrupted,   // distrun got `signal`.
    kTimedOut,      // --timeout has passed.
    kHung,          // No worker made progress for --hang-after.
    kOutputLost,    // The workers' output could not be written; `error` says why.
    kGuardLost,     // distrun's guard process was killed.
    kNotJoined,     // This node was refused, or did not reach node 0; see `error`.
    kOtherNode,     // Another node ended the run; see `verdict`.
  };
  Cause cause = Cause::kSucceeded;
  int attempt = 0;  // The attempt that ended; from 0.
  std::optional<LocalRank> culprit;
  std::optional<Error> error;
  int signal = 0;
  std::vector<WorkerOutcome> workers;   // By local rank.
  std::vector<LocalRank> failures;      // Failed workers, in the order of their ends.
  std::optional<NodesVerdict> verdict;  // With several nodes: on the whole run.
};

// distrun's own exit statuses; docs/exit-codes.md lists all.
inline constexpr int kExitFindings = 1;  // Of distrun check.
inline constexpr int kExitUsage = 2;
inline constexpr int kExitHung = 75;  // EX_TEMPFAIL of sysexits.h: try again.
inline constexpr int kExitTimedOut = 124;
inline constexpr int kExitInternal = 125;
inline constexpr int kExitNotExecutable = 126;
inline constexpr int kExitNotFound = 127;

// 0 on success; the exit code of `culprit`, or 128 + its signal; 124 for a timeout; 75 for a hang;
// 126 or 127 if the program could not be executed; 128 + the signal that ended distrun; otherwise
// 125. With several nodes, the verdict's status.
int exit_status(const RunEnd& run_end);

// The headline of a hang: "no progress for 300 s (--hang-after)". `where` may be " on any node".
std::string no_progress_text(std::chrono::milliseconds limit, std::string_view where = "");

// The status for an error before the run starts.
int exit_status(const Error& error);

}  // namespace distrun
