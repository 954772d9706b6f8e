#include "launcher/engines/engine_facts.h"

namespace distrun {

Result<std::optional<EngineFacts>> engine_facts(const Environment& environment,
                                                const ProcessAt& process_at) {
  // mpirun may run in a step of Slurm, whose variables its tasks inherit.
  if (auto facts = open_mpi_facts(environment); !facts || *facts) return facts;
  if (auto facts = mpich_facts(environment, process_at); !facts || *facts) return facts;
  return slurm_facts(environment);
}

std::uint16_t port_of(const EngineFacts& facts) {
  std::uint32_t hash = 2166136261;  // FNV-1a
  for (const char each : facts.id) hash = (hash ^ static_cast<unsigned char>(each)) * 16777619;
  constexpr std::uint32_t kFirst = 20000, kCount = 10000;
  return static_cast<std::uint16_t>(kFirst + hash % kCount);
}

}  // namespace distrun
