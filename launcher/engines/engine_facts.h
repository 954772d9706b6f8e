// What the engine that started this process, such as Slurm or mpirun, says about it: facts from
// environment variables, each with its source.
//
//     const auto facts = engine_facts(environment, process_at);
//     if (!facts) return facts.error();      // A variable has an impossible value.
//     if (*facts) use(**facts);              // Else no engine started it.
//
// An engine starts *tasks*. A task is one process, for example one distrun. An empty variable
// counts as not set.
//
// Pure, except for `process_at`.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/os/environment.h"
#include "distrun/result.h"

namespace distrun {

template <class Value>
struct EngineFact {
  std::optional<Value> value;  // nullopt: the engine does not say.
  std::string source;          // "SLURM_PROCID"
};

struct EngineFacts {
  std::string engine;           // "Slurm", "Open MPI"
  std::string job;              // "job 77, step 0"; may be empty.
  std::string id;               // "slurm-77.0": equal for all tasks of a run, and for no other run.
  EngineFact<int> tasks, task;  // How many there are; which of them this is.
  EngineFact<int> local_tasks, local_task;  // The same, of this node.
  EngineFact<int> nodes, node;
  EngineFact<int> most_tasks;       // On any node.
  EngineFact<std::string> address;  // Of the node with task 0.
  EngineFact<std::string> host;     // What the engine calls this node.
  bool aborts = false;              // The engine ends all tasks at once if one fails.
  EngineFact<int> socket;           // A descriptor by which the task talks to the engine.
};

// The process at the other end of a Unix socket of this process; nullopt if it is none.
using ProcessAt = std::function<std::optional<int>(int descriptor)>;

// Fails with kInvalidArgument, and names the variable. A worker of a run inherits the variables of
// its launcher: do not ask there.
Result<std::optional<EngineFacts>> engine_facts(const Environment& environment,
                                                const ProcessAt& process_at);

// One per engine; nullopt if that engine did not start this process.
Result<std::optional<EngineFacts>> ssh_hosts_facts(const Environment& environment);
Result<std::optional<EngineFacts>> slurm_facts(const Environment& environment);
Result<std::optional<EngineFacts>> open_mpi_facts(const Environment& environment);
Result<std::optional<EngineFacts>> mpich_facts(const Environment& environment,
                                               const ProcessAt& process_at);

// A port for the store of a run that an engine started, from 20000 to 29999: the same for all its
// tasks, and most probably not that of another run.
std::uint16_t port_of(const EngineFacts& facts);

}  // namespace distrun
