#include "launcher/engines/ssh_hosts.h"

#include <optional>
#include <utility>

#include "launcher/engines/engine_facts.h"
#include "launcher/engines/fact_reader.h"

namespace distrun {

namespace {

constexpr const char* kHostsNodes = "DISTRUN_HOSTS_NODES";
constexpr const char* kHostsNode = "DISTRUN_HOSTS_NODE";
constexpr const char* kHostsAddress = "DISTRUN_HOSTS_ADDRESS";
constexpr const char* kHostsName = "DISTRUN_HOSTS_NAME";
constexpr const char* kHostsId = "DISTRUN_HOSTS_ID";

EngineFact<std::string> text_fact(const FactReader& read, const char* variable) {
  return {read.text(variable), variable};
}

}  // namespace

void set_place(Environment& environment, const PlaceOnHosts& place) {
  environment.set(kHostsNodes, std::to_string(place.nodes));
  environment.set(kHostsNode, std::to_string(place.node));
  environment.set(kHostsAddress, place.address);
  environment.set(kHostsName, place.host);
  environment.set(kHostsId, place.id);
}

void remove_place(Environment& environment) {
  for (const char* name : {kHostsNodes, kHostsNode, kHostsAddress, kHostsName, kHostsId}) {
    environment.unset(name);
  }
}

Result<std::optional<EngineFacts>> ssh_hosts_facts(const Environment& environment) {
  FactReader read(environment, "distrun --hosts");
  if (!read.text(kHostsNodes)) return std::optional<EngineFacts>();
  EngineFacts facts{.engine = "distrun --hosts"};
  facts.id = read.text(kHostsId).value_or("");
  facts.tasks = facts.nodes = read.number(kHostsNodes, 1);
  facts.task = facts.node = read.number(kHostsNode, 0);
  facts.local_tasks = facts.most_tasks = {1, kHostsNodes};
  facts.local_task = {0, kHostsNodes};
  read.check_index(facts.task, facts.tasks);
  facts.address = text_fact(read, kHostsAddress);
  facts.host = text_fact(read, kHostsName);
  if (read.error()) return *read.error();
  return std::optional(std::move(facts));
}

}  // namespace distrun
