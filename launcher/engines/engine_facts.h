// Facts about this process from the engine that started it, such as Slurm, mpirun or Kubernetes.
// They come from environment variables. Each fact names its source.
//
//     const auto facts = engine_facts(environment, {.process_at = …, .text_of = …});
//     if (!facts) return facts.error();      // A variable has an impossible value.
//     if (*facts) use(**facts);              // Else no engine started it.
//
// An engine starts *tasks*. A task is one process, for example one distrun, or one pod of
// Kubernetes. An empty variable counts as not set.
//
// Pure, except for the probes.
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
  EngineFact<int> tasks, task;  // How many there are (Kubernetes does not say); which this is.
  EngineFact<int> local_tasks, local_task;  // The same, of this node.
  EngineFact<int> nodes, node;
  EngineFact<int> most_tasks;       // On any node.
  EngineFact<std::string> address;  // Of the node with task 0.
  EngineFact<std::string> host;     // The engine's name of this node.
  bool aborts = false;              // The engine ends all tasks at once if one fails.
  bool has_own_host = false;        // No other task shares this one's addresses and console.
  EngineFact<int> socket;           // A descriptor by which the task talks to the engine.
};

// How to find out what variables do not say.
struct EngineProbes {
  // The process at the other end of a Unix socket of this process; nullopt if it is none.
  std::function<std::optional<int>(int descriptor)> process_at;
  // The text of a small file; nullopt if it cannot be read.
  std::function<std::optional<std::string>(const std::string& path)> text_of;
};

// Fails with kInvalidArgument, and names the variable. A worker of a run inherits the variables of
// its launcher: do not ask there.
Result<std::optional<EngineFacts>> engine_facts(const Environment& environment,
                                                const EngineProbes& probes);

// One per engine; nullopt if that engine did not start this process.
Result<std::optional<EngineFacts>> ssh_hosts_facts(const Environment& environment);
Result<std::optional<EngineFacts>> lsf_facts(const Environment& environment,
                                             const EngineProbes& probes);
Result<std::optional<EngineFacts>> open_mpi_facts(const Environment& environment);
Result<std::optional<EngineFacts>> mpich_facts(const Environment& environment,
                                               const EngineProbes& probes);
Result<std::optional<EngineFacts>> slurm_facts(const Environment& environment);
// Fails if it did: PMIx does not say enough.
Result<std::optional<EngineFacts>> pmix_facts(const Environment& environment);
Result<std::optional<EngineFacts>> kubernetes_facts(const Environment& environment,
                                                    const EngineProbes& probes);

// A port for the store of a run that an engine started, from 20000 to 29999: the same for all its
// tasks, and most probably not that of another run.
std::uint16_t port_of(const EngineFacts& facts);

}  // namespace distrun
