#include "launcher/report/rank_map.h"

#include <fmt/format.h>

namespace distrun {

std::string rank_map(const std::vector<RanksOfNode>& nodes) {
  int world_size = 0;
  std::string lines;
  for (const RanksOfNode& node : nodes) {
    world_size += node.count;
    lines += fmt::format("  node {} ({}): ", node.node, node.host);
    lines += node.count == 1 ? fmt::format("rank {}", node.first)
                             : fmt::format("ranks {}-{}", node.first, node.first + node.count - 1);
    if (node.role != "default") lines += ", role " + node.role;
    lines += '\n';
  }
  return fmt::format("distrun: {} {} on {} {}\n", world_size, world_size == 1 ? "rank" : "ranks",
                     nodes.size(), nodes.size() == 1 ? "node" : "nodes") +
         lines;
}

}  // namespace distrun
