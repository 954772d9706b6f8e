#include "backends/hosts/host_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distrun::hosts {
namespace {

using ::testing::ElementsAre;

TEST(HostMapTest, HostsAreNumberedByTheirFirstRanks) {
  const HostMap map({"b", "a", "b", "b", "c"}, 3);
  EXPECT_EQ(map.ranks(), 5);
  EXPECT_EQ(map.hosts(), 3);
  EXPECT_THAT(map.ranks_on(0), ElementsAre(0, 2, 3));
  EXPECT_THAT(map.ranks_on(1), ElementsAre(1));
  EXPECT_THAT(map.leaders(), ElementsAre(0, 1, 4));
  EXPECT_EQ(map.largest(), 3);
  EXPECT_EQ(map.host_of(4), 2);
  EXPECT_EQ(map.my_host(), 0);
  EXPECT_EQ(map.place_of(3), 2);
  EXPECT_FALSE(map.is_leader());
}

TEST(HostMapTest, TheFirstRankOfAHostIsItsLeader) {
  EXPECT_TRUE(HostMap({"a", "b", "b"}, 1).is_leader());
  EXPECT_FALSE(HostMap({"a", "b", "b"}, 2).is_leader());
}

}  // namespace
}  // namespace distrun::hosts
