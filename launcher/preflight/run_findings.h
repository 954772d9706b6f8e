// All findings of `distrun check`: those of each node, and what a comparison of the nodes shows.
//
//     for (const std::string& finding : run_findings(nodes)) …
//     // "node 1 (gpu-2): /dev/shm has 64 MiB: …"
//     // "PyTorch differs: 2.12.0 on node 0 (gpu-1), 2.13.0 on node 1 (gpu-2): …"
//
// Pure.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "launcher/preflight/node_check.h"

namespace distrun {

// Logs of nodes can then still be compared by their times.
inline constexpr std::chrono::milliseconds kClocksApartMax = std::chrono::seconds(1);

struct CheckedNode {
  NodeCheck report;
  ReachReport reach;
};

// Those of the nodes in the order of the nodes, then comparisons. Requires distinct node numbers.
std::vector<std::string> run_findings(std::vector<CheckedNode> nodes);

}  // namespace distrun
