// What distrun tells the distrun launch of each host of `--hosts`: the same as an engine tells its
// tasks.
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
  std::string host;     // What the user calls this node.
  std::string id;       // Of the run.
};

void set_place(Environment& environment, const PlaceOnHosts& place);

}  // namespace distrun
