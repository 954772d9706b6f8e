// Finds and kills leaked processes: those that outlive their worker or rank, including daemons.
//
//     become_subreaper();                            // first
//     …
//     const auto killed = kill_leaked_processes(30s);  // no process of the run exists after this
//
// Only unreaped children are signalled, so no signal hits a reused pid. Deeper processes become
// children when their parents die.
//
// Every child counts as leaked: the calling process must have no others, such as those inherited
// through exec() (see has_children()). Requires one thread, and a kernel with /proc/…/children
// (CONFIG_PROC_CHILDREN) or a /proc that shows this user's processes.
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
  std::string name;  // From /proc/PID/comm; empty if unreadable.
};

// From now on, this process becomes the parent of orphaned descendants.
Result<void> become_subreaper();

// Children, ended or not. May miss one while others end: call it again.
std::vector<pid_t> children();

// Also true for children that have ended.
bool has_children();

// Kills and reaps every child and their orphans, until none is left or `timeout` has passed.
struct KilledProcesses {
  std::vector<LeakedProcess> killed;
  std::vector<LeakedProcess> survivors;  // SIGKILL did not end them; they are stuck in the kernel.
};
KilledProcesses kill_leaked_processes(std::chrono::milliseconds timeout);

// The members of a group except its leader. Reads /proc of every process on the machine.
std::vector<LeakedProcess> members_of_group(pid_t group);

// Reaps ended children unless `is_kept`. A subreaper must do this, or their pids are never freed.
void reap_ended_children(const std::function<bool(pid_t)>& is_kept);

}  // namespace distrun
