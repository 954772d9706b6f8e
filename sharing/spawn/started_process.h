// Starts a process for a function: a new execution of this program, or a fork.
//
//     StartedProcess process = start_fresh(0);       // its main() calls run_if_spawned()
//     send_packet(process.control.get(), …, {process.lifeline_of_worker.get()});
//     … process.pidfd becomes readable when it ends …
//     std::optional<ProcessEnd> end = reap(process);
//
// The lifeline is a pair of sockets without data. When the parent's end closes, at the latest when
// the parent ends, the kernel sends SIGKILL to the process (F_SETSIG). Unlike a parent-death signal
// (prctl), it does not fire when the thread that started the process ends.
//
// The process stays in the caller's process group and session, so Ctrl-C and Ctrl-Z reach it. Its
// stdin is /dev/null; SIGTERM ends it.
//
// Errors are thrown as c10::Error.
#pragma once

#include <functional>
#include <optional>

#include <sys/types.h>

#include "common/os/unique_fd.h"
#include "distrun/process_end.h"

namespace distrun::internal {

// In a fresh process: the descriptor of its control socket.
inline constexpr const char* kSpawnedVariable = "DISTRUN_SPAWNED";

struct StartedProcess {
  int index = 0;
  pid_t pid = -1;
  UniqueFd pidfd;
  UniqueFd control;             // Packets to and from the process; it never blocks.
  UniqueFd lifeline;            // Close it, and the process gets SIGKILL.
  UniqueFd lifeline_of_worker;  // Send it to a fresh process, then close it.
};

// The worker's ends of these sockets.
struct WorkerEnds {
  UniqueFd control;
  UniqueFd lifeline;
};

// Executes this program again with the same arguments. The process inherits the environment, 0, 1,
// 2 and the control socket.
StartedProcess start_fresh(int index);

// Forks. The child calls `run`, which never returns, with default actions for all signals that are
// not ignored. Throws if this process has other threads: the fork would have their locks, but not
// the threads.
StartedProcess start_fork(int index, const std::function<void(WorkerEnds)>& run);

// In the worker: ends it when the parent's end of the lifeline closes, or at once if it is closed.
void die_with_parent(int lifeline);

// Safe even if other code has reaped the process: a pidfd, unlike a pid, is never reused.
void send_signal(const StartedProcess& process, int signal);

// For a child that could not be set up.
void kill_and_reap(pid_t pid);

// In the worker: opens /dev/null for closed ones of 0, 1 and 2. Otherwise the next opened file
// would take their place and receive the output.
void open_standard_descriptors();

// Requires that the process has ended. Empty if the kernel no longer knows its status.
std::optional<ProcessEnd> reap(const StartedProcess& process);

}  // namespace distrun::internal
