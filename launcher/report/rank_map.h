// rank_map is what --display-map prints: the ranks of each node.
//
//     distrun: 12 ranks on 2 nodes
//       node 0 (gpu-0): ranks 0-7
//       node 1 (gpu-1): ranks 8-11, role evaluator
//
// Omits the role `default`. Pure.
#pragma once

#include <string>
#include <vector>

#include "launcher/nodes/nodes.h"

namespace distrun {

std::string rank_map(const std::vector<RanksOfNode>& nodes);

}  // namespace distrun
