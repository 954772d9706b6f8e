// nodes_plan_of says how this node connects to the others of a launch.
//
//     auto made = make_nodes(io, nodes_plan_of(plan, "gpu-7"), handlers);
//
// Pure.
#pragma once

#include <string>

#include "launcher/nodes/make_nodes.h"
#include "launcher/plan/plan.h"

namespace distrun {

// `host` is this node's name in messages.
NodesPlan nodes_plan_of(const LaunchPlan& plan, const std::string& host);

}  // namespace distrun
