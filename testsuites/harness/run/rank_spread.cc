#include "testsuites/harness/run/rank_spread.h"

#include <algorithm>

namespace distrun {

std::vector<RankBlock> rank_spread(int ranks, int nodes) {
  std::vector<RankBlock> blocks;
  const int used = std::min(ranks, nodes);
  for (int node = 0, first = 0; node < used; ++node) {
    const int count = ranks / used + (node < ranks % used ? 1 : 0);
    blocks.push_back({first, count});
    first += count;
  }
  return blocks;
}

}  // namespace distrun
