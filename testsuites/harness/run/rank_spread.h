// rank_spread divides the ranks of a test among nodes: blocks of almost equal size, in the order of
// the nodes. Nodes that get no rank are left out.
//
//     rank_spread(5, 2)      // {{.first = 0, .count = 3}, {.first = 3, .count = 2}}
//
// Pure.
#pragma once

#include <vector>

namespace distrun {

struct RankBlock {
  int first = 0, count = 1;
  friend bool operator==(const RankBlock&, const RankBlock&) = default;
};

std::vector<RankBlock> rank_spread(int ranks, int nodes);

}  // namespace distrun
