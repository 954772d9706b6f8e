#include "launcher/preflight/node_check.h"

#include <gtest/gtest.h>

namespace distrun {
namespace {

TEST(NodeCheckTest, ArrivesAsItWasSent) {
  const NodeCheck sent{.node = 3,
                       .host = "gpu-3",
                       .findings = {"a", "b"},
                       .address = "fe80::1%eth0",
                       .torch = "",
                       .interface = "eth0",
                       .mtu = 1500,
                       .gpus = 8,
                       .variables = {{"NCCL_DEBUG", "INFO"}}};
  const auto arrived = decode_check(encode(sent));
  ASSERT_TRUE(arrived) << arrived.error().message;
  EXPECT_EQ(arrived->node, 3);
  EXPECT_EQ(arrived->host, sent.host);
  EXPECT_EQ(arrived->findings, sent.findings);
  EXPECT_EQ(arrived->address, sent.address);
  EXPECT_EQ(arrived->torch, "");
  EXPECT_EQ(arrived->interface, "eth0");
  EXPECT_EQ(arrived->mtu, 1500);
  EXPECT_EQ(arrived->gpus, 8);
  EXPECT_EQ(arrived->variables, sent.variables);
}

TEST(NodeCheckTest, UnknownValuesAndOtherBytesArrive) {
  const auto arrived = decode_check(encode(NodeCheck{.variables = {{"NCCL_X", "\xff"}}}));
  ASSERT_TRUE(arrived) << arrived.error().message;
  EXPECT_FALSE(arrived->torch || arrived->mtu);
  EXPECT_EQ(arrived->variables.size(), 1U);
}

TEST(NodeCheckTest, ConnectionsArrive) {
  const ReachReport sent{.clock = {WallTime(std::chrono::microseconds(5))},
                         .unreachable = {{2, "connection refused"}}};
  const auto reach = decode_reach(encode(sent));
  ASSERT_TRUE(reach) << reach.error().message;
  EXPECT_EQ(reach->clock, sent.clock);
  ASSERT_EQ(reach->unreachable.size(), 1U);
  EXPECT_EQ(reach->unreachable[0].node, 2);
  EXPECT_EQ(reach->unreachable[0].problem, "connection refused");
  const auto peers = decode_peers(encode(std::vector<Peer>{{8, 1, "10.0.0.2", 7}}));
  ASSERT_TRUE(peers) << peers.error().message;
  ASSERT_EQ(peers->size(), 1U);
  EXPECT_EQ(peers->front().rank, 8);
  EXPECT_EQ(peers->front().node, 1);
  EXPECT_EQ(peers->front().address, "10.0.0.2");
  EXPECT_EQ(peers->front().port, 7);
}

TEST(NodeCheckTest, RejectsOtherTexts) {
  for (const char* text : {"", "none", "{}", "[1]", "{\"node\":\"x\"}"}) {
    EXPECT_FALSE(decode_check(text)) << text;
    EXPECT_FALSE(decode_reach(text)) << text;
    EXPECT_FALSE(decode_peers(text) && !decode_peers(text)->empty()) << text;
  }
}

}  // namespace
}  // namespace distrun
