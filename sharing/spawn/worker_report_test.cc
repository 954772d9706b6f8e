#include "sharing/spawn/worker_report.h"

#include <gtest/gtest.h>

#include "common/os/packet_socket.h"

namespace distrun::internal {
namespace {

TEST(WorkerReportTest, ReportsArriveAsTheyWere) {
  for (const WorkerReport& report :
       {WorkerReport(WorkerHasBegun{}), WorkerReport(WorkerHasReturned{}),
        WorkerReport(WorkerHasRaised{"c10::ValueError", "", 12}),
        WorkerReport(WorkerHasRaised{"", std::string("a\0b\nc", 5)})}) {
    EXPECT_EQ(parse_worker_report(to_packet(report)), report);
  }
}

TEST(WorkerReportTest, ALongTextIsCutSoThatItFitsIntoAPacket) {
  const std::string much(1'000'000, 'x');
  const std::string packet = to_packet(WorkerHasRaised{much, much});
  EXPECT_LE(packet.size(), kPacketBytesMax);
  EXPECT_EQ(parse_worker_report(packet),
            WorkerReport(WorkerHasRaised{much.substr(0, 1024), much.substr(0, 64 * 1024)}));
}

TEST(WorkerReportTest, OtherBytesAreNoReport) {
  for (const char* bytes : {"", "beg", "begun ", "raised", "raised x", "raised 1", "go"}) {
    EXPECT_EQ(parse_worker_report(bytes), std::nullopt) << bytes;
  }
  EXPECT_EQ(parse_worker_report(std::string("raised x \0", 10)), std::nullopt);
  EXPECT_EQ(parse_worker_report(std::string("raised 1\0 ", 10)), std::nullopt);
}

}  // namespace
}  // namespace distrun::internal
