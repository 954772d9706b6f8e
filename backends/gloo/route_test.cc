#include "backends/gloo/route.h"

#include <gtest/gtest.h>

namespace distrun::internal {
namespace {

TEST(RouteTest, ReturnsNothingForLoopbackAddresses) {
  for (const char* host : {"127.0.0.1", "127.0.1.1", "::1", "localhost"}) {
    EXPECT_EQ(address_towards(host, 29500), std::nullopt) << host;
  }
}

TEST(RouteTest, ReturnsNothingForUnknownHosts) {
  EXPECT_EQ(address_towards("no.such.host.invalid", 29500), std::nullopt);
}

}  // namespace
}  // namespace distrun::internal
