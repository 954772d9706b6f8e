// What a run starts besides its workers: their children, and theirs, also those that have put
// themselves into sessions of their own or whose parents have ended (daemons).
//
//     adopt_descendants();                        // first: orphans become children of this process
//     …
//     const auto left = end_descendants(30s);     // nothing of the run is there after this
//
// Only children of this process that it has not reaped are ever signalled, so no signal can hit a
// stranger, whatever became of a pid.  What is deeper becomes a child as its parent dies.
//
// Every child counts: this is for a process that has no others.  A process that was
// not forked but executed may have inherited some: has_children() tells.
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

// A process that had to be ended.
struct Leftover {
  pid_t pid = -1;
  std::string name;  // As in /proc/PID/comm; empty where it could not be read.
};

// From here on, a descendant whose parent ends becomes a child of this process.
Result<void> adopt_descendants();

// Of this process, ended or not.  May miss one while others end: who needs all looks again.
std::vector<pid_t> children();

// This process has a child, ended or not, that has not been reaped.
bool has_children();

// Sends SIGKILL to every child, reaps it, and goes on with those that have become children by
// that, until there is none or the time is over.
struct EndedDescendants {
  std::vector<Leftover> ended;      // Those that were still running.
  std::vector<Leftover> survivors;  // Those that SIGKILL has not ended: stuck in the kernel.
};
EndedDescendants end_descendants(std::chrono::milliseconds timeout);

// The processes of a process group, but for its leader.  Looks at every process of the machine.
std::vector<Leftover> members_of_group(pid_t group);

// Reaps children that have ended, but for those that `is_kept` names: who adopts has to, or their
// pids are never free again.
void reap_ended_children(const std::function<bool(pid_t)>& is_kept);

}  // namespace distrun
