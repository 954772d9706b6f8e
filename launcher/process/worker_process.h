// Starts worker processes, and kills the rest of their groups.
//
//     auto started = spawn_process({.executable = path, .arguments = argv, .environment = env,
//                                   .out = out_pipe, .err = err_pipe});
//     if (!started) return started.error();        // "exec ./worker: exec format error"
//     … the pidfd becomes readable when it exits …
//     auto end = look_at_end(*started);            // it stays a zombie: its group can be signalled
//     end_group(*started);                         // nothing of the group is left after this
//
// A process is started by vfork, which costs the same however large the launcher is.
// Each is the leader of a process group of its own, and of a session unless that is kept, gets
// SIGKILL when the launcher's thread that started it ends, however that comes about, begins with
// SIGPIPE deadly and the caller's signal mask, and inherits no descriptor but 0, 1 and 2.
//
// Built on the initialisers of Boost.Process v2 with a launcher of our own: the
// one it has for vfork runs the parent's exit handlers in a child whose exec failed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <signal.h>
#include <sys/types.h>

#include "common/os/environment.h"
#include "common/os/unique_fd.h"
#include "distrun/process_end.h"
#include "distrun/result.h"

namespace distrun {

struct SpawnRequest {
  std::string executable;
  std::vector<std::string> arguments;  // From argv[0] on.
  Environment environment;
  int in = 0, out = 1, err = 2;  // Become its descriptors 0, 1 and 2; the caller's stay open.
  bool keeps_session = false;    // And so its terminal; only the group is its own.
};

struct WorkerProcess {
  pid_t pid = -1;
  UniqueFd pidfd;  // Readable once the process has exited.
};

// Fails with kNotFound or kNotExecutable where exec() says so, else with kSystem.
Result<WorkerProcess> spawn_process(const SpawnRequest& request);

// Raises this process's limit of open descriptors as far as it may: a worker costs
// three, and one for each of its connections to the store.  Workers get the limit back that was
// there before.
void allow_many_descriptors();

// How the process ended, or nothing while it runs.  It is not reaped by this.
std::optional<ProcessEnd> look_at_end(const WorkerProcess& process);

// Whether it has left a core.  Requires that it has exited and has not been reaped.
bool has_dumped_core(const WorkerProcess& process);

// Sends `signal` to the process itself.  Requires that it has been started and not been reaped.
void signal_process(const WorkerProcess& process, int signal);

// Likewise, to its group.
void signal_group(const WorkerProcess& process, int signal);

// Requires that the process has exited.  Kills the rest of its group and reaps it.
void end_group(const WorkerProcess& process);

}  // namespace distrun
