// The tasks that jsrun starts in a job of LSF. Its job step manager, JSM, sets the variables.
#include <utility>

#include <fmt/format.h>

#include "launcher/engines/engine_facts.h"
#include "launcher/engines/fact_reader.h"

namespace distrun {

namespace {

constexpr const char* kRankFile = "LSB_DJOB_RANKFILE";

// The file has a host per line. The first one runs the batch script, and jsrun fills the others in
// this order.
std::string first_compute_host(const std::string& hosts) {
  const std::size_t second = hosts.find('\n');
  if (second == std::string::npos) return "";
  const std::size_t begin = hosts.find_first_not_of(" \t\r", second + 1);
  if (begin == std::string::npos) return "";
  return hosts.substr(begin, hosts.find_first_of(" \t\r\n", begin) - begin);
}

// An mpirun within a task of jsrun sets other ranks than jsrun; jsrun itself sets the same ones.
bool runs_mpirun(const FactReader& read) {
  const auto differ = [&](const char* one, const char* other) {
    const auto value = read.text(one);
    return value && value != read.text(other);
  };
  return differ("OMPI_COMM_WORLD_SIZE", "JSM_NAMESPACE_SIZE") ||
         differ("OMPI_COMM_WORLD_RANK", "JSM_NAMESPACE_RANK");
}

}  // namespace

Result<std::optional<EngineFacts>> lsf_facts(const Environment& environment,
                                             const EngineProbes& probes) {
  FactReader read(environment, "jsrun");
  if (!read.text("JSM_NAMESPACE_SIZE") || runs_mpirun(read)) return std::optional<EngineFacts>();
  EngineFacts facts{.engine = "LSF"};
  facts.tasks = read.number("JSM_NAMESPACE_SIZE", 1);
  facts.task = read.number("JSM_NAMESPACE_RANK", 0);
  facts.local_tasks = read.number("JSM_NAMESPACE_LOCAL_SIZE", 1);
  facts.local_task = read.number("JSM_NAMESPACE_LOCAL_RANK", 0);
  read.check_indices(facts);
  if (read.error()) return *read.error();
  if (const auto job = read.text("LSB_JOBID")) {
    facts.job = "job " + *job;
    facts.id = "lsf-" + *job;
    // A job may call jsrun several times.
    if (const auto name = read.text("PMIX_NAMESPACE")) facts.id += '-' + *name;
  }
  conclude_one_node(facts);
  if (const auto path = read.text(kRankFile); path && !facts.address.value) {
    const auto hosts = probes.text_of(*path);
    if (auto host = first_compute_host(hosts.value_or("")); !host.empty()) {
      facts.address = {std::move(host), kRankFile};
    }
  }
  return std::optional(std::move(facts));
}

}  // namespace distrun
