#include "launcher/engines/engine_facts.h"

#include <boost/crc.hpp>

namespace distrun {

Result<std::optional<EngineFacts>> engine_facts(const Environment& environment,
                                                const EngineProbes& probes) {
  // A host may have variables of an engine in which its ssh server runs.
  if (auto facts = ssh_hosts_facts(environment); !facts || *facts) return facts;
  // Tasks inherit the variables of outer engines, so inner ones are first: mpirun may run in a step
  // of Slurm, and Slurm in a pod. The tasks of jsrun have variables of Open MPI and PMIx, and those
  // of many engines have variables of PMIx.
  if (auto facts = lsf_facts(environment, probes); !facts || *facts) return facts;
  if (auto facts = open_mpi_facts(environment); !facts || *facts) return facts;
  if (auto facts = mpich_facts(environment, probes); !facts || *facts) return facts;
  if (auto facts = slurm_facts(environment); !facts || *facts) return facts;
  if (auto facts = pmix_facts(environment); !facts || *facts) return facts;
  return kubernetes_facts(environment, probes);
}

std::uint16_t port_of(const EngineFacts& facts) {
  boost::crc_32_type hash;
  hash.process_bytes(facts.id.data(), facts.id.size());
  constexpr std::uint32_t kFirst = 20000, kCount = 10000;
  return static_cast<std::uint16_t>(kFirst + hash.checksum() % kCount);
}

}  // namespace distrun
