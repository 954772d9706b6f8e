// Starts worker processes, and kills the rest of their groups.
//
//     auto started = spawn_process({.executable = path, .arguments = argv, .environment = env,
//                                   .out = out_pipe, .err = err_pipe});
//     if (!started) return started.error();        // "exec ./worker: exec format error"
//     … the pidfd becomes readable when it exits …
//     auto end = look_at_end(*started);            // it stays a zombie: its group can be signalled
//     end_group(*started);                         // no process of the group is left after this
//
// Uses vfork, whose cost does not depend on the launcher's size. A worker leads its own process
// group, and its own session unless keeps_session is set. It gets SIGKILL when the thread that
// started it ends, starts with default SIGPIPE and the caller's signal mask, and inherits only
// descriptors 0 to 2, and `kept`.
//
// Not Boost.Process's vfork launcher: it runs the parent's exit handlers in a child whose exec
// failed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <signal.h>
#include <sys/types.h>

#include "common/os/cpu_set.h"
#include "common/os/environment.h"
#include "common/os/unique_fd.h"
#include "distrun/process_end.h"
#include "distrun/result.h"

namespace distrun {

struct SpawnRequest {
  std::string executable;
  std::vector<std::string> arguments;  // Including argv[0].
  Environment environment;
  int in = 0, out = 1, err = 2;  // Its descriptors 0, 1 and 2; the caller's stay open.
  int kept = -1;                 // Another descriptor, which keeps its number; -1: none.
  bool keeps_session = false;    // Keeps the terminal; only the group is new.
  CpuSet cpus = {};              // It and its children run only on these; empty: on the caller's.
};

struct WorkerProcess {
  pid_t pid = -1;
  UniqueFd pidfd;  // Readable once the process has exited.
};

// Fails with kNotFound or kNotExecutable if exec() says so, else with kSystem.
Result<WorkerProcess> spawn_process(const SpawnRequest& request);

// Raises this process's limit of open descriptors as far as permitted: a worker needs three, plus
// one per connection to the store. Workers get the original limit.
void allow_many_descriptors();

// nullopt while the process runs. Does not reap it.
std::optional<ProcessEnd> look_at_end(const WorkerProcess& process);

// Requires that the process has exited and is not reaped.
bool has_dumped_core(const WorkerProcess& process);

// Requires that the process is not reaped.
void signal_process(const WorkerProcess& process, int signal);

// Likewise, for its group.
void signal_group(const WorkerProcess& process, int signal);

// Kills the rest of its group and reaps it. Requires that it has exited.
void end_group(const WorkerProcess& process);

}  // namespace distrun
