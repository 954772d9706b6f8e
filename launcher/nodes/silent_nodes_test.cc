// Nodes that do nothing any more, as if they were frozen.
#include <chrono>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/nodes/test/nodes_fixture.h"

namespace distrun {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using std::chrono::milliseconds;
using testing::AnsweringServer;
using ::testing::Contains;
using ::testing::IsEmpty;
using testing::join_request;

class SilentNodesTest : public testing::NodesFixture {};

// A node that asks to join and then does nothing, as if it were frozen.
tcp::socket frozen_node(asio::io_context& io, std::uint16_t port) {
  tcp::socket socket(io);
  socket.connect({asio::ip::make_address("127.0.0.1"), port});
  socket.send(asio::buffer(static_cast<char>(kNodeGreeting) + to_line(join_request(1))));
  return socket;
}

TEST_F(SilentNodesTest, ANodeThatDoesNotAnswerIsReportedAndThenLost) {
  host(2, {.heartbeat = milliseconds(100)});
  const tcp::socket frozen = frozen_node(io_, port_);
  ASSERT_TRUE(comes_to([&] { return host_log_.orders.size() == 2; }));
  EXPECT_THAT(host_log_.notices, Contains("node 1 (host1) has been silent for 0.2 s"));
  EXPECT_EQ(describe(std::get<StopNode>(host_log_.orders[1]).verdict),
            "node 1 (host1): lost: it has been silent for 0.3 s");
}

TEST_F(SilentNodesTest, WithoutAHeartbeatANodeMayBeSilent) {
  host(2, {.silence = milliseconds(1), .heartbeat = milliseconds(0)});
  const tcp::socket frozen = frozen_node(io_, port_);
  // In either order.
  ASSERT_TRUE(comes_to([&] { return !host_->silent().empty() && !host_log_.orders.empty(); }));
  EXPECT_THAT(host_log_.notices, IsEmpty());
  EXPECT_EQ(host_log_.orders.size(), 1u);
}

TEST_F(SilentNodesTest, WhenTheRunStopsASilentNodeIsNotWaitedFor) {
  host(2, {.stop_patience = milliseconds(100),
           .silence = milliseconds(1),
           .heartbeat = milliseconds(0)});
  const tcp::socket frozen = frozen_node(io_, port_);
  ASSERT_TRUE(comes_to([&] { return host_log_.orders.size() == 1; }));
  host_->report(NodeFailed{0, false, {.status = 143, .headline = "ended by signal SIGTERM (15)"}});
  host_->report(NodeStopped{0});
  ASSERT_TRUE(comes_to([&] { return host_log_.orders.size() == 3; }));
  EXPECT_EQ(std::get<FinishNode>(host_log_.orders[2]).verdict.notes,
            "  node 1 (host1) is lost too: it does not answer\n");
}

TEST_F(SilentNodesTest, ANode0ThatDoesNotAnswerIsReportedAndThenLost) {
  const AnsweringServer frozen(
      io_, to_line(JoinAccepted{"host0"}) + to_line(StartNode{.world_size = 2}));
  port_ = frozen.port();
  member(join_request(1), log_, {.heartbeat = milliseconds(100)});
  ASSERT_TRUE(comes_to([&] { return log_.orders.size() == 2; }));
  EXPECT_THAT(log_.notices, Contains("node 0 at 127.0.0.1:" + std::to_string(port_) +
                                     " has been silent for 0.2 s"));
  const NodesVerdict verdict = std::get<StopNode>(log_.orders[1]).verdict;
  EXPECT_EQ(describe(verdict), "node 0 (host0): lost: it has been silent for 0.3 s");
  EXPECT_FALSE(verdict.is_of_node_0);
}

}  // namespace
}  // namespace distrun
