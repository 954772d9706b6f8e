// The place of each host of `--hosts` in the run, as variables for the distrun on that host. They
// are for it what the variables of an engine are for a task.
//
//     set_place(order.environment, {.nodes = 2, .node = 1, .address = "gpu-1", .id = "…"});
//     …
//     ssh_hosts_facts(environment)      // On the host; engine_facts.h
//
// Pure.
#pragma once

#include <string>

#include "common/os/environment.h"

namespace distrun {

struct PlaceOnHosts {
  int nodes = 1, node = 0;
  std::string address;  // Of node 0.
  std::string host;     // The user's name of this node.
  std::string id;       // Of the run.
};

void set_place(Environment& environment, const PlaceOnHosts& place);

// For processes that are not the distrun of the host.
void remove_place(Environment& environment);

}  // namespace distrun
