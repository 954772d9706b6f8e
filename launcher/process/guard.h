// The guard is the process that the user has started.  It does nothing but to stay behind while
// its child, the launcher, does the work, so that nothing of the run is left whichever of
// the two gets SIGKILL:
//
//     shell ── guard ──── launcher ── worker 0 ── …
//                │            │ └──── worker 1 ── … ── daemon
//                └─ lifeline ─┘
//
//     const auto status = run_guarded({SIGINT, SIGTERM}, [&](const Result<GuardLifeline>& line) {
//       if (!line) return … says what has failed …;
//       return … the run, in the launcher; its exit status …;
//     }, on_end);
//     return *status;                             // in the guard
//
// - The launcher ends, however: what it leaves becomes the guard's, which ends it.
// - The guard ends: the lifeline, a pipe, becomes readable in the launcher (end of file), and the
//   launcher ends the run.
//
// The launcher is in a process group of its own, so what the terminal sends to the
// foreground (Ctrl-C, Ctrl-Z, Ctrl-\) reaches the guard alone, which passes it on once.  On Ctrl-Z
// it waits until the launcher has stopped the run and itself, then stops, so that the
// shell sees what it expects; when it goes on, so does the launcher.
//
// A shell may have had children before it became distrun by exec: they are not of the run.  Then a
// third process stands between, so that guard and launcher have no children but the run's.
#pragma once

#include <functional>
#include <vector>

#include <signal.h>
#include <sys/types.h>

#include "distrun/process_end.h"
#include "distrun/result.h"
#include "launcher/process/leaked_processes.h"

namespace distrun {

// With this signal the launcher stops itself when it has stopped the run, so that its guard can
// tell that from any other stop.
inline constexpr int kSelfStop = SIGTTIN;

// What the launcher has of its guard.
struct GuardLifeline {
  int fd = -1;         // Readable when the guard is gone.
  sigset_t blocked{};  // The mask to set when the launcher's handlers are there.
};

struct Guarded {
  ProcessEnd launcher = ExitedWith{0};
  pid_t launcher_pid = -1;
  KilledProcesses left;  // That the launcher had leaked.
};

using Launcher = std::function<int(const Result<GuardLifeline>& lifeline)>;

// Runs `launcher` in a child process; what it returns is that one's exit status, and returned here,
// or 128 + the signal that killed it, when nothing of what it has started is left.  `on_end` is
// called then, in the process that has seen to that.
// Of `signals` those that are not ignored, SIGTSTP and SIGCHLD are passed on; they are blocked
// when `launcher` is called.  Fails where no process or pipe is to be had; where that comes about
// in another process than the caller's, `launcher` gets the error.  Requires one thread.
Result<int> run_guarded(const std::vector<int>& signals, const Launcher& launcher,
                        const std::function<void(const Guarded& guarded)>& on_end);

}  // namespace distrun
