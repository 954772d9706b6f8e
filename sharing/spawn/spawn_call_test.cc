#include "sharing/spawn/spawn_call.h"

#include <utility>

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include "common/os/packet_socket.h"

namespace distrun::internal {
namespace {

TEST(SpawnCallTest, RefusesMalformedCalls) {
  for (const char* head : {"no call", "{}", R"({"index": "a", "bytes": 1, "descriptors": 0})"}) {
    const auto [here, there] = make_packet_sockets().value();
    ASSERT_TRUE(send_packet(here.get(), head, {here.get()}));
    EXPECT_THROW(receive_call(there.get()), c10::ValueError) << head;
  }
  for (const char* bytes : {"", "\xff", "\xa0"}) {
    ReceivedCall call{.bytes = bytes};
    EXPECT_THROW(call.unpack(), c10::ValueError);
  }
}

TEST(SpawnCallTest, ReturnsNothingIfTheParentIsGone) {
  auto [here, there] = make_packet_sockets().value();
  here.reset();
  EXPECT_FALSE(receive_call(there.get()));
}

}  // namespace
}  // namespace distrun::internal
