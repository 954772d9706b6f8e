#include "launcher/engines/engine_facts.h"

#include <boost/crc.hpp>

namespace distrun {

Result<std::optional<EngineFacts>> engine_facts(const Environment& environment,
                                                const ProcessAt& process_at) {
  // A host may have variables of an engine in which its ssh server runs.
  if (auto facts = ssh_hosts_facts(environment); !facts || *facts) return facts;
  // mpirun may run in a step of Slurm, whose variables its tasks inherit.
  if (auto facts = open_mpi_facts(environment); !facts || *facts) return facts;
  if (auto facts = mpich_facts(environment, process_at); !facts || *facts) return facts;
  return slurm_facts(environment);
}

std::uint16_t port_of(const EngineFacts& facts) {
  boost::crc_32_type hash;
  hash.process_bytes(facts.id.data(), facts.id.size());
  constexpr std::uint32_t kFirst = 20000, kCount = 10000;
  return static_cast<std::uint16_t>(kFirst + hash.checksum() % kCount);
}

}  // namespace distrun
