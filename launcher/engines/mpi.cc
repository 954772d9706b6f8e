// The tasks that mpirun and mpiexec start. Neither says where task 0 runs.
#include <utility>

#include <fmt/format.h>

#include "launcher/engines/engine_facts.h"
#include "launcher/engines/fact_reader.h"

namespace distrun {

// docs.open-mpi.org, "Environment variables set for MPI applications"; the namespace is PMIx's.
Result<std::optional<EngineFacts>> open_mpi_facts(const Environment& environment) {
  FactReader read(environment, "Open MPI");
  if (!read.text("OMPI_COMM_WORLD_SIZE")) return std::optional<EngineFacts>();
  EngineFacts facts{.engine = "Open MPI", .aborts = true};
  if (const auto name = read.text("PMIX_NAMESPACE")) facts.id = "openmpi-" + *name;
  facts.tasks = read.number("OMPI_COMM_WORLD_SIZE", 1);
  facts.task = read.number("OMPI_COMM_WORLD_RANK", 0);
  facts.local_tasks = read.number("OMPI_COMM_WORLD_LOCAL_SIZE", 1);
  facts.local_task = read.number("OMPI_COMM_WORLD_LOCAL_RANK", 0);
  read.check_indices(facts);
  if (read.error()) return *read.error();
  conclude_one_node(facts);
  return std::optional(std::move(facts));
}

// Hydra, the mpiexec of MPICH and Intel MPI. It has one process on each node, which starts the
// tasks there.
Result<std::optional<EngineFacts>> mpich_facts(const Environment& environment,
                                               const EngineProbes& probes) {
  FactReader read(environment, "MPICH");
  if (!read.text("PMI_SIZE") || !read.text("MPI_LOCALNRANKS")) return std::optional<EngineFacts>();
  EngineFacts facts{.engine = "MPICH"};
  facts.tasks = read.number("PMI_SIZE", 1);
  facts.task = read.number("PMI_RANK", 0);
  facts.local_tasks = read.number("MPI_LOCALNRANKS", 1);
  facts.local_task = read.number("MPI_LOCALRANKID", 0);
  read.check_indices(facts);
  const auto socket = read.number_if_set("PMI_FD", 0);
  if (read.error()) return *read.error();
  conclude_one_node(facts);
  // If a program between Hydra and this one has closed it, the number means something else.
  const auto process = socket.value ? probes.process_at(*socket.value) : std::nullopt;
  if (process) facts.socket = socket;
  if (facts.nodes.value == 1 && process) facts.id = fmt::format("mpich-{}", *process);
  return std::optional(std::move(facts));
}

}  // namespace distrun
