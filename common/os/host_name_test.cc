#include "common/os/host_name.h"

#include <gtest/gtest.h>
#include <sys/utsname.h>

namespace distrun {
namespace {

TEST(HostNameTest, IsTheKernelsNodeName) {
  utsname kernel{};
  ASSERT_EQ(::uname(&kernel), 0);
  EXPECT_EQ(host_name(), kernel.nodename);
}

}  // namespace
}  // namespace distrun
