// The pods of a Kubernetes Job with indexes, which JobSet and Kubeflow create too. The job
// controller sets JOB_COMPLETION_INDEX and names the host of a pod JOB-INDEX. The number of pods is
// not in the environment.
//
// If the pods have a headless service, the kubelet writes the full name of the pod into /etc/hosts:
//
//     10.1.30.129<tab>train-1.service.namespace.svc.cluster.local<tab>train-1
//
// The name of node 0 differs from it only in the index.
#include <utility>

#include "launcher/engines/engine_facts.h"
#include "launcher/engines/fact_reader.h"

namespace distrun {

namespace {

constexpr const char* kPodIndex = "JOB_COMPLETION_INDEX";
constexpr const char* kHostsFile = "/etc/hosts";
// With the network of its machine, a pod sees the machine's file, under another header.
constexpr std::string_view kKubeletsHeader = "# Kubernetes-managed hosts file.\n";

// The domain of `host` in the kubelet's file: ".service.namespace.svc.cluster.local".
std::optional<std::string> domain_of(const std::string& host, std::string_view hosts) {
  if (!hosts.starts_with(kKubeletsHeader)) return std::nullopt;
  const std::string end = '\t' + host + '\n', begin = '\t' + host + '.';
  while (!hosts.empty()) {
    const std::string_view line = hosts.substr(0, hosts.find('\n') + 1);
    if (line.empty()) break;
    hosts.remove_prefix(line.size());
    const std::size_t at = line.find(begin);
    if (at == std::string_view::npos || !line.ends_with(end)) continue;
    const std::size_t dot = at + begin.size() - 1, length = line.size() - end.size() - dot;
    return std::string(line.substr(dot, length));
  }
  return std::nullopt;
}

}  // namespace

Result<std::optional<EngineFacts>> kubernetes_facts(const Environment& environment,
                                                    const EngineProbes& probes) {
  FactReader read(environment, "Kubernetes");
  if (!read.text(kPodIndex)) return std::optional<EngineFacts>();
  EngineFacts facts{.engine = "Kubernetes", .has_own_host = true};
  facts.task = read.number(kPodIndex, 0);
  if (read.error()) return *read.error();
  facts.local_tasks = {1, kPodIndex};
  facts.local_task = {0, kPodIndex};
  facts.most_tasks = {1, kPodIndex};
  // With setHostnameAsFQDN, the name has a domain.
  const std::string name = read.text("HOSTNAME").value_or("");
  const std::string host = name.substr(0, name.find('.'));
  const std::string index = '-' + std::to_string(*facts.task.value);
  if (!host.ends_with(index) || host.size() == index.size()) return std::optional(std::move(facts));
  const std::string job = host.substr(0, host.size() - index.size());
  facts.job = "Job " + job;
  facts.id = "kubernetes-" + job;
  if (const auto hosts = probes.text_of(kHostsFile)) {
    if (const auto domain = domain_of(host, *hosts))
      facts.address = {job + "-0" + *domain, kHostsFile};
  }
  return std::optional(std::move(facts));
}

}  // namespace distrun
