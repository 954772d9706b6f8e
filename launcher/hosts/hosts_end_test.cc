#include "launcher/hosts/hosts_end.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distrun {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(HostsEndTest, HasTheStatusOfTheNodes) {
  EXPECT_EQ(hosts_end({{"a", 0}, {"b", 0}}).status, 0);
  EXPECT_EQ(hosts_end({{"a", 7}, {"b", 7}}).status, 7);
  EXPECT_THAT(hosts_end({{"a", 7}, {"b", 7}}).lost, IsEmpty());
}

TEST(HostsEndTest, NamesHostsWhoseConnectionWasLost) {
  const HostsEnd end = hosts_end({{"a", 255}, {"b", 125}, {"c", std::nullopt}});
  EXPECT_EQ(end.status, 125);
  EXPECT_THAT(end.lost, ElementsAre("a", "c"));
}

TEST(HostsEndTest, ALostHostIsNoSuccess) {
  EXPECT_EQ(hosts_end({{"a", 0}, {"b", 255}}).status, 125);
  EXPECT_EQ(hosts_end({{"a", 143}, {"b", 255}}).status, 125);
  EXPECT_EQ(hosts_end({{"a", std::nullopt}}).status, 125);
}

TEST(HostsEndTest, TheHostThatEndedFirstHasTheStatus) {
  EXPECT_EQ(hosts_end({{"b", 127}, {"a", 143}}).status, 127);
}

TEST(HostsEndTest, AllNodesMayExitWith255) {
  const HostsEnd end = hosts_end({{"a", 255}, {"b", 255}});
  EXPECT_EQ(end.status, 255);
  EXPECT_THAT(end.lost, IsEmpty());
}

}  // namespace
}  // namespace distrun
