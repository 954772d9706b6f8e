#include "launcher/nodes/rank_flight.h"

#include <gtest/gtest.h>

#include "launcher/nodes/node_messages.h"

namespace distrun {
namespace {

RankFlight flight_with(int members, int groups, int operations) {
  RankFlight flight{.attempt = 1, .rank = Rank(5)};
  for (int i = 0; i < groups; ++i) {
    auto& its = flight.members["group " + std::to_string(i)];
    for (int rank = 0; rank < members + i; ++rank) its.insert(rank);
  }
  for (int i = 0; i < operations; ++i) {
    flight.operations.push_back({.op = "all_reduce",
                                 .sizes = std::string(kOperationTextBytesMax, '1'),
                                 .group = "group " + std::to_string(i),
                                 .sequence = 1});
  }
  return flight;
}

TEST(RankFlightTest, OrdinaryOnesFitAsTheyAre) {
  const RankFlight flight = flight_with(1024, 8, 100);
  EXPECT_EQ(fit_into_message(flight), flight);
}

TEST(RankFlightTest, LeavesOutTheMembersOfTheLargestGroups) {
  const auto fitting = fit_into_message(flight_with(10'000, 3, 5));
  ASSERT_TRUE(fitting);
  EXPECT_EQ(fitting->members.size(), 1U);
  EXPECT_EQ(fitting->members.count("group 0"), 1U);
  EXPECT_EQ(fitting->operations.size(), 5U);
  EXPECT_LE(to_line(*fitting).size(), kNodeMessageBytesMax);
}

// A rank without some of its operations would seem to be missing in them.
TEST(RankFlightTest, LeavesOutNoOperation) {
  EXPECT_FALSE(fit_into_message(flight_with(1, 1, 1000)));
}

}  // namespace
}  // namespace distrun
