// Reads the NodeFacts of this node that /proc, /sys, /dev and the environment tell.
//
//     NodeFacts facts = read_node_facts(environment);
//
// network_facts.h reads the rest.
#pragma once

#include <string>

#include <sys/types.h>
#include <unistd.h>

#include "common/os/environment.h"
#include "launcher/preflight/node_facts.h"

namespace distrun {

// An empty OMP_NUM_THREADS counts as not set. `root` contains /proc, /sys, /dev and the folder for
// temporary files.
NodeFacts read_node_facts(const Environment& environment, const std::string& root = "",
                          uid_t user = ::getuid());

// Whether the values of this variable should be the same on all nodes. False for variables that
// name an interface or a file of the node.
bool is_compared(const std::string& variable);

}  // namespace distrun
