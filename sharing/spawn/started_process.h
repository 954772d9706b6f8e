// Starts a process that is to run a function, as this program executed again or as a fork of it.
//
//     StartedProcess process = start_fresh(0);       // its main() calls run_if_spawned()
//     send_packet(process.control.get(), …, {process.lifeline_of_worker.get()});
//     … process.pidfd becomes readable when it ends …
//     std::optional<ProcessEnd> end = reap(process);
//
// The life of such a process hangs on its lifeline, a pair of sockets that carries nothing.  When
// the parent's end is closed, which the kernel does however the parent ends, the kernel sends
// SIGKILL to the process (F_SETSIG).  That needs no thread, and unlike a parent-death signal
// (prctl) it does not fire when the thread ends that has started the process.
//
// The process is in the caller's process group and session, so that Ctrl-C and Ctrl-Z on a terminal
// reach it.  It reads /dev/null as stdin; SIGTERM ends it.
//
// Errors are thrown as c10::Error.
#pragma once

#include <functional>
#include <optional>

#include <sys/types.h>

#include "common/os/unique_fd.h"
#include "distrun/process_end.h"

namespace distrun::internal {

// In a fresh process: the number of its control socket.
inline constexpr const char* kSpawnedVariable = "DISTRUN_SPAWNED";

struct StartedProcess {
  int index = 0;
  pid_t pid = -1;
  UniqueFd pidfd;
  UniqueFd control;             // Packets to and from the process; it never blocks.
  UniqueFd lifeline;            // Close it, and the process gets SIGKILL.
  UniqueFd lifeline_of_worker;  // A fresh process has to be handed it; it may be closed here then.
};

// What the process itself has of this.
struct WorkerEnds {
  UniqueFd control;
  UniqueFd lifeline;
};

// Executes this program again, with the same arguments.  What is inherited, besides the
// environment: 0, 1, 2 and the control socket; no other descriptor.
StartedProcess start_fresh(int index);

// Forks.  In the child `run` is called, which never returns, with every signal's action the default
// but for those that are ignored.  Throws where this process has other threads: a fork would have
// their locks, and not them.
StartedProcess start_fork(int index, const std::function<void(WorkerEnds)>& run);

// In the process: it ends when the parent's end of the lifeline is closed, also where that has
// happened before.
void die_with_parent(int lifeline);

// Also where the process has been reaped by somebody else: a pid may be another's then, its pidfd
// is not.
void send_signal(const StartedProcess& process, int signal);

// For a child that is not to be.
void kill_and_reap(pid_t pid);

// In the process: /dev/null for those of 0, 1 and 2 that are closed, lest what is opened next takes
// their place and gets what is printed.
void open_standard_descriptors();

// Requires that the process has ended.  Nothing where the kernel does not know its end any more.
std::optional<ProcessEnd> reap(const StartedProcess& process);

}  // namespace distrun::internal
