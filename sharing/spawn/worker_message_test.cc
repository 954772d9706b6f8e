#include "sharing/spawn/worker_message.h"

#include <gtest/gtest.h>

#include "common/os/packet_socket.h"

namespace distrun::internal {
namespace {

TEST(WorkerMessageTest, MessagesSurviveARoundTrip) {
  for (const WorkerMessage& report :
       {WorkerMessage(WorkerHasBegun{}), WorkerMessage(WorkerHasReturned{}),
        WorkerMessage(WorkerHasRaised{"c10::ValueError", "", 12}),
        WorkerMessage(WorkerHasRaised{"", std::string("a\0b\nc", 5)})}) {
    EXPECT_EQ(parse_worker_message(to_packet(report)), report);
  }
}

TEST(WorkerMessageTest, CutsLongTextsToFitIntoAPacket) {
  const std::string much(1'000'000, 'x');
  const std::string packet = to_packet(WorkerHasRaised{much, much});
  EXPECT_LE(packet.size(), kPacketBytesMax);
  EXPECT_EQ(parse_worker_message(packet),
            WorkerMessage(WorkerHasRaised{much.substr(0, 1024), much.substr(0, 64 * 1024)}));
}

TEST(WorkerMessageTest, RefusesOtherBytes) {
  for (const char* bytes : {"", "beg", "begun ", "raised", "raised x", "raised 1", "go"}) {
    EXPECT_EQ(parse_worker_message(bytes), std::nullopt) << bytes;
  }
  EXPECT_EQ(parse_worker_message(std::string("raised x \0", 10)), std::nullopt);
  EXPECT_EQ(parse_worker_message(std::string("raised 1\0 ", 10)), std::nullopt);
}

}  // namespace
}  // namespace distrun::internal
