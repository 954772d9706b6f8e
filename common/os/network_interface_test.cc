#include "common/os/network_interface.h"

#include <gtest/gtest.h>

namespace distrun {
namespace {

TEST(NetworkInterfaceTest, LoopbackReachesNoOtherMachine) {
  EXPECT_EQ(interface_of("127.0.0.1"), std::nullopt);
  EXPECT_EQ(interface_of("::1"), std::nullopt);
}

TEST(NetworkInterfaceTest, AddressOfAnotherMachineHasNoInterface) {
  EXPECT_EQ(interface_of("192.0.2.1"), std::nullopt);  // Reserved for documentation.
  EXPECT_EQ(interface_of("no address"), std::nullopt);
}

}  // namespace
}  // namespace distrun
