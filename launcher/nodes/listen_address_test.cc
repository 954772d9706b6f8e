#include "launcher/nodes/listen_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distrun {
namespace {

using std::chrono::seconds;
using ::testing::AnyOf;
using ::testing::HasSubstr;

TEST(ListenAddressTest, KeepsNumericAddresses) {
  EXPECT_EQ(listen_address("--master-addr", "127.0.0.9", seconds(0)).value(), "127.0.0.9");
  EXPECT_EQ(listen_address("--master-addr", "::", seconds(0)).value(), "::");
}

// 192.0.2.0/24 is reserved for documentation.
TEST(ListenAddressTest, RejectsAddressesOfOtherMachines) {
  const auto address = listen_address("--master-addr", "192.0.2.7", seconds(0));
  ASSERT_FALSE(address);
  EXPECT_THAT(address.error().message,
              HasSubstr("--master-addr 192.0.2.7 is not an address of this machine; start node 0"));
}

// Other machines cannot reach a loopback address.
TEST(ListenAddressTest, LoopbackNameListensOnAllAddresses) {
  EXPECT_THAT(listen_address("--master-addr", "localhost", seconds(30)).value(),
              AnyOf("::", "0.0.0.0"));
}

TEST(ListenAddressTest, RejectsNamesWithoutAddress) {
  const auto address = listen_address("--master-addr", "no such host", seconds(60));
  ASSERT_FALSE(address);
  EXPECT_EQ(address.error().kind, ErrorKind::kSystem);
}

TEST(ListenAddressTest, LookUpTimesOut) {
  const auto address = listen_address("--master-addr", "localhost", seconds(0));
  ASSERT_FALSE(address);
  EXPECT_EQ(address.error().kind, ErrorKind::kTimedOut);
}

}  // namespace
}  // namespace distrun
