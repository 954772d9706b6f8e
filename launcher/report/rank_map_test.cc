#include "launcher/report/rank_map.h"

#include <gtest/gtest.h>

namespace distrun {
namespace {

TEST(RankMapTest, ShowsTheRanksOfEachNode) {
  EXPECT_EQ(rank_map({{.node = 0, .host = "gpu-0", .role = "default", .first = 0, .count = 8},
                      {.node = 1, .host = "gpu-1", .role = "evaluator", .first = 8, .count = 1}}),
            "distrun: 9 ranks on 2 nodes\n"
            "  node 0 (gpu-0): ranks 0-7\n"
            "  node 1 (gpu-1): rank 8, role evaluator\n");
}

TEST(RankMapTest, CountsOneRankAndOneNode) {
  EXPECT_EQ(rank_map({{.node = 0, .host = "gpu-0", .role = "default", .first = 0, .count = 1}}),
            "distrun: 1 rank on 1 node\n"
            "  node 0 (gpu-0): rank 0\n");
}

}  // namespace
}  // namespace distrun
