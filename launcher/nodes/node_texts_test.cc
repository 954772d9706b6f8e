// Texts between node 0 and others on real sockets, in one event loop.
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/units.h"
#include "launcher/nodes/test/nodes_fixture.h"

namespace distrun {
namespace {

using testing::AnsweringServer;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::join_request;
using testing::NodesLog;
using ::testing::Pair;

// The network does not take it at once.
std::string long_text() {
  std::string text;
  while (text.size() < 5 * kMiB) text += R"({"text": "a \"b\" \\")";
  return text;
}

// Does not print it.
bool has_only_long_text(const NodesLog& log, int node) {
  return log.texts == std::vector{std::pair(node, long_text())};
}

class NodeTextsTest : public testing::NodesFixture {
 protected:
  bool comes_to_text(const NodesLog& log) {
    return comes_to([&] { return !log.texts.empty(); });
  }
};

TEST_F(NodeTextsTest, ArriveInOrderOnAllNodes) {
  host(3);
  NodesLog third_log;
  NodesMember& second = member(join_request(1, 3), log_);
  NodesMember& third = member(join_request(2, 3), third_log);
  ASSERT_TRUE(comes_to([&] { return log_.orders.size() == 1 && third_log.orders.size() == 1; }));
  host_->send_text(1, "to 1");
  host_->send_text(2, "to 2");
  host_->send_text(1, "again to 1");
  ASSERT_TRUE(comes_to([&] { return log_.texts.size() == 2 && third_log.texts.size() == 1; }));
  EXPECT_THAT(log_.texts, ElementsAre(Pair(0, "to 1"), Pair(0, "again to 1")));
  EXPECT_THAT(third_log.texts, ElementsAre(Pair(0, "to 2")));
  second.send_text(0, "of 1");
  ASSERT_TRUE(comes_to_text(host_log_));
  third.send_text(0, "of 2");
  ASSERT_TRUE(comes_to([&] { return host_log_.texts.size() == 2; }));
  EXPECT_THAT(host_log_.texts, ElementsAre(Pair(1, "of 1"), Pair(2, "of 2")));
}

TEST_F(NodeTextsTest, LongTextArrivesWholeBetweenOthers) {
  host();
  NodesMember& other = member(join_request(1), log_);
  ASSERT_TRUE(both_start());
  const std::string text = long_text();
  for (const std::string& each : {std::string("first"), text, std::string("last")}) {
    other.send_text(0, each);
    host_->send_text(1, each);
  }
  ASSERT_TRUE(comes_to([&] { return host_log_.texts.size() == 3 && log_.texts.size() == 3; }));
  EXPECT_TRUE(host_log_.texts[1] == std::pair(1, text));
  EXPECT_TRUE(log_.texts[1] == std::pair(0, text));
  EXPECT_EQ(host_log_.texts[2].second, "last");
  EXPECT_EQ(log_.texts[2].second, "last");
}

TEST_F(NodeTextsTest, HeartbeatsOvertakeTexts) {
  host();
  int asked = 0;
  const auto clock = [&] {
    ++asked;
    return std::chrono::system_clock::now();
  };
  NodesMember& other = member(join_request(1), log_, {.clock = clock});
  ASSERT_TRUE(both_start());
  // Both sides always have texts to send.
  const std::string text = long_text();
  const int asked_before = asked;
  std::size_t sent = 0;
  EXPECT_TRUE(comes_to([&] {
    for (; sent < host_log_.texts.size() + 2; ++sent) {
      other.send_text(0, text);
      host_->send_text(1, text);
    }
    return asked == asked_before + 3;
  }));
  EXPECT_EQ(host_log_.orders.size(), 1U) << "no node is lost";
  EXPECT_THAT(host_log_.notices, IsEmpty());
}

TEST_F(NodeTextsTest, FailureOvertakesTextsToNode0) {
  host();
  NodesMember& other = member(join_request(1), log_);
  ASSERT_TRUE(both_start());
  other.send_text(0, long_text());
  other.report(NodeFailed{0, false, {.status = 7}});
  ASSERT_TRUE(comes_to([&] { return host_log_.orders.size() == 2; }));
  EXPECT_THAT(host_log_.texts, IsEmpty());
  EXPECT_TRUE(comes_to_text(host_log_));
}

TEST_F(NodeTextsTest, StopOvertakesTextsOfNode0) {
  host();
  member(join_request(1), log_);
  ASSERT_TRUE(both_start());
  host_->send_text(1, long_text());
  host_->report(NodeFailed{0, false, {.status = 7}});
  ASSERT_TRUE(comes_to([&] { return log_.orders.size() == 2; }));
  EXPECT_THAT(log_.texts, IsEmpty());
  EXPECT_TRUE(comes_to_text(log_));
}

TEST_F(NodeTextsTest, LastTextsArriveBeforeTheEndOfTheRun) {
  host();
  NodesMember& other = member(join_request(1), log_);
  ASSERT_TRUE(both_start());
  other.send_text(0, long_text());
  host_->send_text(1, long_text());
  other.report(NodeSucceeded{0});
  host_->report(NodeSucceeded{0});
  ASSERT_TRUE(comes_to([&] { return host_log_.orders.size() == 2; }));
  EXPECT_TRUE(has_only_long_text(host_log_, 1));
  ASSERT_TRUE(comes_to([&] { return log_.orders.size() == 2; }));
  EXPECT_TRUE(has_only_long_text(log_, 0));
}

TEST_F(NodeTextsTest, LastTextsArriveFromNodesThatHaveStoppedAndClosed) {
  host();
  NodesMember& other = member(join_request(1), log_);
  ASSERT_TRUE(both_start());
  host_->report(NodeFailed{0, false, {.status = 7}});
  ASSERT_TRUE(comes_to([&] { return log_.orders.size() == 2; }));
  other.send_text(0, long_text());
  other.report(NodeStopped{0});
  other.close();
  host_->report(NodeStopped{0});
  ASSERT_TRUE(comes_to([&] { return host_log_.orders.size() == 3; }));
  EXPECT_TRUE(has_only_long_text(host_log_, 1));
  EXPECT_EQ(std::get<FinishNode>(host_log_.orders[2]).verdict.notes, "");
}

TEST_F(NodeTextsTest, LastTextsArriveFromNode0ThatHasClosed) {
  host();
  NodesMember& other = member(join_request(1), log_);
  ASSERT_TRUE(both_start());
  other.report(NodeSucceeded{0});
  host_->send_text(1, long_text());
  host_->report(NodeSucceeded{0});
  ASSERT_TRUE(comes_to([&] { return host_log_.orders.size() == 2; }));
  unhost();
  ASSERT_TRUE(comes_to([&] { return log_.orders.size() == 2; }));
  EXPECT_TRUE(has_only_long_text(log_, 0));
  EXPECT_EQ(std::get<FinishNode>(log_.orders[1]).verdict.status, 0);
}

TEST_F(NodeTextsTest, NextAttemptStartsAfterTheTextsOfTheLast) {
  JoinRequest own = join_request(0), asks = join_request(1);
  own.max_restarts = asks.max_restarts = 1;
  host(own);
  NodesMember& other = member(asks, log_);
  ASSERT_TRUE(both_start());
  host_->report(NodeFailed{0, /*may_restart=*/true, {.status = 7}});
  host_->send_text(1, long_text());
  host_->report(NodeStopped{0});
  ASSERT_TRUE(comes_to([&] { return log_.orders.size() == 2; }));
  other.report(NodeStopped{0});
  ASSERT_TRUE(comes_to([&] { return log_.orders.size() == 3; }));
  EXPECT_EQ(std::get<StartNode>(log_.orders[2]).attempt, 1);
  EXPECT_TRUE(has_only_long_text(log_, 0));
}

TEST_F(NodeTextsTest, TextToALostNodeIsDropped) {
  host();
  member(join_request(1), log_);
  ASSERT_TRUE(both_start());
  host_->send_text(1, long_text());
  members_.clear();
  ASSERT_TRUE(comes_to([&] { return host_log_.orders.size() == 2; }));
  host_->send_text(1, "text");
  host_->send_text(7, "no such node");
  host_->report(NodeStopped{0});
  EXPECT_TRUE(comes_to([&] { return host_log_.orders.size() == 3; })) << "node 0 goes on";
  EXPECT_THAT(log_.texts, IsEmpty());
}

TEST_F(NodeTextsTest, StrangersAreRefused) {
  host();
  EXPECT_TRUE(is_dropped(to_line(NodeText{"text"})));
  ASSERT_EQ(host_log_.notices.size(), 1U);
  EXPECT_THAT(
      host_log_.notices[0],
      ::testing::EndsWith(" is not a node of this run: it does not begin with a request to join"));
  EXPECT_THAT(host_log_.texts, IsEmpty());
  member(join_request(1), log_);
  EXPECT_TRUE(both_start());
}

TEST_F(NodeTextsTest, NodeThatSendsTextsBeforeTheStartIsDropped) {
  host(3);
  EXPECT_TRUE(is_dropped(to_line(join_request(1, 3)) + to_line(NodeText{"text"})));
  EXPECT_THAT(host_log_.notices,
              ElementsAre("node 1 (host1) was refused: it sends texts before the run has started"));
  EXPECT_THAT(host_log_.texts, IsEmpty());
  NodesLog third_log;
  member(join_request(1, 3), log_);
  member(join_request(2, 3), third_log);
  EXPECT_TRUE(comes_to([&] { return log_.orders.size() == 1 && third_log.orders.size() == 1; }));
}

TEST_F(NodeTextsTest, Node0ThatSendsTextsBeforeTheStartIsLeft) {
  const AnsweringServer wrong(io_, to_line(JoinAccepted{"host0"}) + to_line(NodeText{"text"}));
  port_ = wrong.port();
  member(join_request(1), log_);
  ASSERT_TRUE(comes_to([&] { return !log_.notices.empty(); }));
  EXPECT_EQ(log_.notices[0], "waiting for node 0 at 127.0.0.1:" + std::to_string(port_) +
                                 " again: it sends messages that node 0 does not send");
  EXPECT_THAT(log_.texts, IsEmpty());
}

TEST_F(NodeTextsTest, NodeThatSendsATooLongTextIsLost) {
  host(2, {.text_bytes_max = 100'000});
  NodesMember& other = member(join_request(1), log_);
  ASSERT_TRUE(both_start());
  other.send_text(0, std::string(100'000, '"'));
  EXPECT_TRUE(comes_to_text(host_log_));
  other.send_text(0, std::string(100'001, '"'));
  ASSERT_TRUE(comes_to([&] { return host_log_.orders.size() == 2; }));
  EXPECT_EQ(describe(std::get<StopNode>(host_log_.orders[1]).verdict),
            "node 1 (host1): lost: it sends a text of more than 100000 bytes");
  EXPECT_EQ(host_log_.texts.size(), 1U);
}

TEST_F(NodeTextsTest, Node0ThatSendsATooLongTextIsLost) {
  host();
  member(join_request(1), log_, {.text_bytes_max = 100'000});
  ASSERT_TRUE(both_start());
  host_->send_text(1, std::string(100'001, '"'));
  ASSERT_TRUE(comes_to([&] { return log_.orders.size() == 2; }));
  EXPECT_EQ(describe(std::get<StopNode>(log_.orders[1]).verdict),
            "node 0 (host0): lost: it sends a text of more than 100000 bytes");
  EXPECT_THAT(log_.texts, IsEmpty());
}

}  // namespace
}  // namespace distrun
