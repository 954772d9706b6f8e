// The guard is the process that the user started; its child, the launcher, does the work. If one
// gets SIGKILL, the other ends the run:
//
//     shell ── guard ──── launcher ── worker 0 ── …
//                │            │ └──── worker 1 ── … ── daemon
//                └─ lifeline ─┘
//
//     const auto status = run_guarded({SIGINT, SIGTERM}, [&](const Result<GuardLifeline>& line) {
//       if (!line) return … report the error …;
//       return … the run, in the launcher; its exit status …;
//     }, on_end);
//     return *status;                             // in the guard
//
// - If the launcher ends, the guard inherits its children, and kills them.
// - If the guard ends, so does the lifeline (a pipe), and the launcher ends the run.
//
// The launcher has its own process group, so Ctrl-C, Ctrl-Z and Ctrl-\ reach only the guard, which
// forwards them once. On Ctrl-Z the guard stops after the launcher has stopped the run and itself;
// both continue together.
//
// A shell that becomes distrun by exec may have other children. Then a third process, between it
// and the launcher, is the guard, and has only children of the run.
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
  ProcessEnd launcher = ExitedWith{0};
  pid_t launcher_pid = -1;
  KilledProcesses left;  // Leaked by the launcher.
};

using Launcher = std::function<int(const Result<GuardLifeline>& lifeline)>;

// Runs `launcher` in a child process; its result is the child's exit status. Returns that status,
// or 128 + the signal that killed the child, after every process of the run has ended. Calls
// `on_end` before, in the process that killed the rest. The guard forwards SIGTSTP, SIGCONT and
// those of `signals` that are not ignored; `launcher` is called with these and SIGCHLD blocked.
// Fails if no process or pipe can be created; in another process, `launcher` gets the error.
// Requires one thread.
Result<int> run_guarded(const std::vector<int>& signals, const Launcher& launcher,
                        const std::function<void(const Guarded& guarded)>& on_end);

}  // namespace distrun
