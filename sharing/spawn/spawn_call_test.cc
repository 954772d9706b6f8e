#include "sharing/spawn/spawn_call.h"

#include <utility>

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include "common/os/packet_socket.h"
#include "sharing/memory/test/child_process.h"

namespace distrun::internal {
namespace {

using testing::error_of;

TEST(SpawnCallTest, RefusesMalformedCalls) {
  for (const char* head : {"no call", "{}", R"({"index": "a", "bytes": 1, "descriptors": 0})"}) {
    const auto [here, there] = make_packet_sockets().value();
    ASSERT_TRUE(send_packet(here.get(), head, {here.get()}));
    const std::string text = error_of<c10::ValueError>([&] { receive_call(there.get()); });
    EXPECT_TRUE(text.starts_with("take over arguments: the message is malformed: ") ||
                text == "a malformed message: \"a\" is not a whole number within its bounds")
        << text;
  }
  for (const char* bytes : {"", "\xff", "\xa0"}) {
    ReceivedCall call{.bytes = bytes};
    EXPECT_TRUE(error_of<c10::ValueError>([&] {
                  call.unpack();
                }).starts_with("take over arguments: the message is malformed: "));
  }
  ReceivedCall call{.bytes = "abc", .queue_bytes = 4};
  EXPECT_EQ(error_of<c10::ValueError>([&] { call.unpack(); }),
            "take over arguments: 4 of 3 bytes are queues");
}

TEST(SpawnCallTest, RefusesACallWithoutALifeline) {
  const auto [here, there] = make_packet_sockets().value();
  ASSERT_TRUE(send_packet(here.get(), "{}", {}));
  EXPECT_EQ(error_of<c10::ValueError>([&] { receive_call(there.get()); }),
            "take over arguments: no lifeline");
}

TEST(SpawnCallTest, ReturnsNothingIfTheParentIsGone) {
  auto [here, there] = make_packet_sockets().value();
  here.reset();
  EXPECT_FALSE(receive_call(there.get()));
}

}  // namespace
}  // namespace distrun::internal
