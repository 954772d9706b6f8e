// RunEvent is an event of a run, for listeners: the lines that distrun prints (event_line.h) and
// the file of --events (event_json.h). SupervisorEvent (supervisor.h) is the supervisor's input.
//
//     run_launch(plan, files, {.on_event = [&](const RunEvent& event) {
//       if (const auto* failed = std::get_if<AttemptFailed>(&event)) return …;
//       return std::string();
//     }});
//
// Events come in order, from RunStarted to RunEnded. A listener is called on the run's thread; it
// must not block or call back.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <sys/types.h>

#include "common/rank.h"
#include "distrun/process_end.h"
#include "evidence/operations/call_check.h"
#include "evidence/operations/digest_check.h"
#include "evidence/operations/recorded_digests.h"
#include "evidence/operations/straggler_watch.h"
#include "evidence/report/where_ranks_are.h"
#include "launcher/outcome/run_end.h"
#include "launcher/process/leaked_processes.h"

namespace distrun {

struct RunStarted {
  pid_t launcher_pid = -1;
  std::string store;  // "127.0.0.1:29500", or the file's URL.
};
struct NodeNotice {  // With several nodes: nodes that are missing or refused.
  std::string text;
};
struct AttemptStarted {
  int attempt = 0;
};
struct WorkerStarted {
  int attempt = 0;
  LocalRank worker;
  pid_t pid = -1;
};
struct WorkerEnded {
  int attempt = 0;
  LocalRank worker;
  pid_t pid = -1;
  ProcessEnd end;
  std::chrono::milliseconds run_time{0};
};
struct OutputLeaked {  // The worker has ended, but another process holds its output open.
  int attempt = 0;
  LocalRank worker;
};
struct LeakedProcessesKilled {
  int attempt = 0;
  std::vector<LeakedProcess> processes;
};
struct SignalReceived {  // distrun got a signal.
  int signal = 0;
  bool forwarded = false;  // To the workers; otherwise it ends the run.
};
struct RunSuspended {};  // Ctrl-Z.
struct RunContinued {};
struct WorkersStillRunning {  // After a signal that ends the run.
  struct Worker {
    LocalRank worker;
    pid_t pid = -1;
  };
  int attempt = 0;
  std::vector<Worker> workers;
  std::optional<std::chrono::milliseconds> until_kill;  // nullopt: SIGKILL does not follow.
  std::optional<int> signal;                            // The next one kills them.
};
struct StragglerFound {  // A rank that comes late to collectives.
  int attempt = 0;
  Straggler straggler;
};
struct CallsDiffer {  // Ranks called different collectives, or with other tensors.
  int attempt = 0;
  CallDifference difference;
};
struct ValuesDiffer {  // With --digest: ranks received different values.
  int attempt = 0;
  DigestDifference difference;
};
struct ValuesCompared {  // At the end of an attempt with --digest.
  int attempt = 0;
  std::uint64_t collectives = 0;  // Whose values were compared.
  std::uint64_t missed = 0;       // Operations of ranks that were not read in time.
};
struct RecordingDiffers {  // With --compare-digests: ranks did otherwise than in the recorded run.
  int attempt = 0;
  RecordDifference difference;
};
struct RecordingCompared {  // At the end of an attempt with --compare-digests.
  int attempt = 0;
  std::uint64_t collectives = 0;  // Whose values were compared,
  std::uint64_t recorded = 0;     // of so many in the recorded run.
  bool is_same = true;
};
struct StacksRead {  // Where workers are: before a run is stopped, or on SIGUSR1.
  int attempt = 0;
  Whereabouts where;
  // Which ranks wait in a collective, and which are missing: as workers have recorded, and as the
  // flight recorders of NCCL answered. Both may be empty.
  std::string recorded = {}, on_gpus = {};
  // What RAS of NCCL says is wrong, or why NCCL was not asked; may be empty.
  std::string nccl = {};
  bool prints = true;  // The line of the event.

  std::string collectives() const {
    return recorded + (recorded.empty() || on_gpus.empty() ? "" : "; ") + on_gpus;
  }
};
struct AttemptFailed {  // Another attempt follows.
  int attempt = 0;
  RunEnd end;
};
struct RunEnded {
  RunEnd end;
};

using RunEvent =
    std::variant<RunStarted, NodeNotice, AttemptStarted, WorkerStarted, WorkerEnded, OutputLeaked,
                 LeakedProcessesKilled, SignalReceived, RunSuspended, RunContinued,
                 WorkersStillRunning, StragglerFound, CallsDiffer, ValuesDiffer, ValuesCompared,
                 RecordingDiffers, RecordingCompared, StacksRead, AttemptFailed, RunEnded>;

}  // namespace distrun
