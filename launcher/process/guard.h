// The guard is the process that the user started; its grandchild, the launcher, does the work, and
// a second guard stands between them. If any two of the three get SIGKILL, the third ends the run:
//
//     shell ── guard ──── second guard ──── launcher ── worker 0 ── …
//                │          │      │            │ └──── worker 1 ── … ── daemon
//                └─ lifeline┘      └─ lifeline ─┘
//
//     const auto status = run_guarded({SIGINT, SIGTERM}, [&](const Result<GuardLifeline>& line) {
//       if (!line) return … report the error …;
//       return … the run, in the launcher; its exit status …;
//     }, on_end);
//     return *status;                             // in the guard
//
// - If the launcher ends, its children become the second guard's, which kills them.
// - If the second guard ends, the launcher and its children become the guard's, which kills them.
// - If the guard ends, the second guard passes this on: it closes its own lifeline.
// - If both guards end, the launcher reads the end of its lifeline (a pipe), and ends the run.
//
// The second guard and the launcher have their own process groups, so Ctrl-C, Ctrl-\ and Ctrl-Z
// reach only the guard, which forwards them once. On Ctrl-Z the guards stop after the launcher has
// stopped the run and itself. When the guard continues, so do they.
//
// As process 1 of a container, the guard also reaps orphans that do not belong to the run, such as
// those of `kubectl exec`.
//
// A shell that becomes distrun by exec may have other children. Then the guard kills nothing, so
// that only the second guard and the launcher, which have only children of the run, end it.
#pragma once

#include <functional>
#include <vector>

#include <signal.h>
#include <sys/types.h>

#include "distrun/process_end.h"
#include "distrun/result.h"
#include "launcher/process/leaked_processes.h"

namespace distrun {

// Distinguishes the launcher's own stop from other stops.
inline constexpr int kSelfStop = SIGTTIN;

struct GuardLifeline {
  int fd = -1;         // Readable after the guard has ended.
  sigset_t blocked{};  // The signal mask to restore once handlers are installed.
  pid_t started = -1;  // The process that the user started.
};

struct Guarded {
  const char* name = "launcher";  // Or "second guard".
  pid_t pid = -1;
  ProcessEnd end = ExitedWith{0};
  KilledProcesses left;  // Leaked by it.
};

using Launcher = std::function<int(const Result<GuardLifeline>& lifeline)>;

// Runs `launcher` in a process of its own; its result is the exit status. Returns that status, or
// 128 + the signal that killed the process, after every process of the run has ended. Before, calls
// `on_end` in the process that killed the rest; that of the second guard runs no destructors
// afterwards. The guard forwards SIGTSTP, SIGCONT and those of `signals`, unless ignored;
// `launcher` is called with these and SIGCHLD blocked. Fails if no process or pipe can be created;
// in another process, `launcher` gets the error. Requires one thread.
Result<int> run_guarded(const std::vector<int>& signals, const Launcher& launcher,
                        const std::function<void(const Guarded& guarded)>& on_end);

}  // namespace distrun
