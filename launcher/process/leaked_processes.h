// Finds and kills leaked processes: those that outlive the worker or the rank that started them,
// including daemons, which have a session of their own.
//
//     become_subreaper();                            // first
//     …
//     const auto killed = kill_leaked_processes(30s);  // no process of the run exists after this
//
// Only unreaped children of this process are ever signalled, so no signal can hit a stranger,
// even if a pid is used again.  Deeper processes become children when their parents die.
//
// Every child counts as leaked, so the calling process must have no other children.  A process that
// was executed, not forked, may have inherited some: see has_children().
// Requires one thread, and a kernel with /proc/…/children (CONFIG_PROC_CHILDREN) or a /proc that
// shows the processes of this user.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "distrun/result.h"

namespace distrun {

struct LeakedProcess {
  pid_t pid = -1;
  std::string name;  // As in /proc/PID/comm; empty if it could not be read.
};

// From here on, a process below this one whose parent ends becomes a child of this process.
Result<void> become_subreaper();

// Of this process, ended or not.  May miss one while others end: call it again to see all.
std::vector<pid_t> children();

// This process has a child, ended or not, that has not been reaped.
bool has_children();

// Kills and reaps every child, then the processes that become children thereby, until none is left
// or `timeout` is over.
struct KilledProcesses {
  std::vector<LeakedProcess> killed;
  std::vector<LeakedProcess> survivors;  // Stuck in the kernel: SIGKILL has not ended them.
};
KilledProcesses kill_leaked_processes(std::chrono::milliseconds timeout);

// The processes of a process group, but for its leader.  Looks at every process of the machine.
std::vector<LeakedProcess> members_of_group(pid_t group);

// Reaps children that have ended, except those for which `is_kept` is true.  A subreaper must do
// so, or their pids are never free again.
void reap_ended_children(const std::function<bool(pid_t)>& is_kept);

}  // namespace distrun
