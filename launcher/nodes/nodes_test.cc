// Node 0 and others on real sockets, in one event loop.
#include <chrono>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/nodes/test/nodes_fixture.h"

namespace distrun {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::join_request;
using testing::NodesLog;

class NodesTest : public testing::NodesFixture {};

TEST_F(NodesTest, RunStartsAndEndsOnAllNodes) {
  host();
  NodesMember& other = member(join_request(1), log_);
  ASSERT_TRUE(both_start());
  EXPECT_EQ(std::get<StartNode>(log_.orders[0]).rank_base, 1);
  EXPECT_EQ(std::get<StartNode>(log_.orders[0]).world_size, 2);
  other.report(NodeSucceeded{0});
  host_->report(NodeSucceeded{0});
  ASSERT_TRUE(comes_to([&] { return log_.orders.size() == 2; }));
  EXPECT_EQ(std::get<FinishNode>(log_.orders[1]).verdict.status, 0);
  EXPECT_EQ(std::get<FinishNode>(host_log_.orders.at(1)).verdict.status, 0);
}

TEST_F(NodesTest, FailureOfOneNodeStopsTheOther) {
  host();
  NodesMember& other = member(join_request(1), log_);
  ASSERT_TRUE(both_start());
  other.report(NodeFailed{0, false, {.status = 7, .headline = "rank 1 failed"}});
  ASSERT_TRUE(comes_to([&] { return host_log_.orders.size() == 2 && log_.orders.size() == 2; }));
  const auto stop = std::get<StopNode>(host_log_.orders[1]);
  EXPECT_EQ(describe(stop.verdict), "node 1 (host1): rank 1 failed");
  EXPECT_EQ(log_.orders[1], NodeOrder(stop));
}

RankOperation all_reduce_of(int rank, OperationTime began) {
  return {Rank(rank),
          {.number = 1,
           .op = "all_reduce",
           .group = "0",
           .group_rank = rank,
           .group_size = 2,
           .sequence = 1,
           .began = began,
           .ended = began + milliseconds(5)}};
}

TEST_F(NodesTest, Node0ConvertsTheTimesOfAnotherClock) {
  for (const auto ahead : {seconds(0), seconds(7200), seconds(-7200)}) {
    log_ = host_log_ = {};
    host();
    const auto clock = [ahead] { return std::chrono::system_clock::now() + ahead; };
    NodesMember& other = member(join_request(1), log_, {.clock = clock});
    ASSERT_TRUE(both_start());
    const OperationTime began = std::chrono::system_clock::now();
    other.send_operations(0, {all_reduce_of(1, began + ahead)}, 3);
    ASSERT_TRUE(comes_to([&] { return !host_log_.operations.empty(); }));
    const NodeOperations& got = host_log_.operations[0];
    EXPECT_EQ(got.missed, 3U);
    ASSERT_EQ(got.operations.size(), 1U);
    const auto& [rank, operation] = got.operations[0];
    EXPECT_EQ(rank, Rank(1));
    EXPECT_EQ(operation.op, "all_reduce");
    EXPECT_EQ(operation.node, 1);
    EXPECT_GT(operation.clock_error, std::chrono::nanoseconds(0));
    EXPECT_LE(std::chrono::abs(operation.began - began), operation.clock_error);
    EXPECT_EQ(*operation.ended - operation.began, milliseconds(5));
    members_.clear();
    unhost();
  }
}

// The network takes less than that at once.
TEST_F(NodesTest, OperationsAtTheEndArriveOrAreCounted) {
  host();
  NodesMember& other = member(join_request(1), log_);
  ASSERT_TRUE(both_start());
  constexpr std::size_t kAll = 10'000;
  other.send_operations(0, {kAll, all_reduce_of(1, std::chrono::system_clock::now())}, 0);
  other.report(NodeSucceeded{0});
  host_->report(NodeSucceeded{0});
  ASSERT_TRUE(comes_to([&] { return host_log_.orders.size() == 2; }));
  std::size_t arrived = 0, missed = 0;
  for (const NodeOperations& message : host_log_.operations) {
    arrived += message.operations.size();
    missed += message.missed;
  }
  EXPECT_GT(arrived, 0U);
  EXPECT_EQ(arrived + missed, kAll);
}

TEST_F(NodesTest, OperationsThatWaitAreSentWhenThereIsRoom) {
  host();
  NodesMember& other = member(join_request(1), log_);
  ASSERT_TRUE(both_start());
  constexpr std::size_t kAll = 10'000;
  other.send_operations(0, {kAll, all_reduce_of(1, std::chrono::system_clock::now())}, 0);
  std::size_t arrived = 0;
  EXPECT_TRUE(comes_to([&] {
    arrived = 0;
    for (const NodeOperations& message : host_log_.operations) arrived += message.operations.size();
    return arrived == kAll;
  })) << arrived;
}

TEST_F(NodesTest, Node0KnowsNodesThatHaveNotAnswered) {
  host(2, {.silence = milliseconds(1)});
  member(join_request(1), log_);
  ASSERT_TRUE(both_start());
  // After the first answers, node 0 asks only once a second.
  ASSERT_TRUE(comes_to([&] { return !host_->silent().empty(); }));
  EXPECT_EQ(host_->silent()[0].node, 1);
  EXPECT_EQ(host_->silent()[0].first, 1);
}

TEST_F(NodesTest, NodeThatAnswersIsNotSilent) {
  host();
  member(join_request(1), log_);
  ASSERT_TRUE(both_start());
  EXPECT_THAT(host_->silent(), IsEmpty());
}

TEST_F(NodesTest, NodeThatSendsOperationsOfOtherRanksIsLost) {
  host();
  NodesMember& other = member(join_request(1), log_);
  ASSERT_TRUE(both_start());
  other.send_operations(0, {all_reduce_of(0, OperationTime())}, 0);
  ASSERT_TRUE(comes_to([&] { return host_log_.orders.size() == 2; }));
  EXPECT_EQ(std::get<StopNode>(host_log_.orders[1]).verdict.headline,
            "lost: it sends operations of other nodes' ranks");
  EXPECT_THAT(host_log_.operations, IsEmpty());
}

TEST_F(NodesTest, FlightsArriveBeforeTheEndOfTheAttempt) {
  host();
  NodesMember& other = member(join_request(1), log_);
  ASSERT_TRUE(both_start());
  const RankFlight flight{.rank = Rank(1), .operations = {}, .members = {{"0", {0, 1}}}};
  other.send_flight(flight);
  other.report(NodeFailed{0, false, {.status = 7}});
  ASSERT_TRUE(comes_to([&] { return host_log_.orders.size() == 2; }));
  other.report(NodeStopped{0});
  host_->report(NodeStopped{0});
  ASSERT_TRUE(comes_to([&] { return host_log_.orders.size() == 3; }));
  EXPECT_THAT(host_log_.flights, ElementsAre(flight));
}

TEST_F(NodesTest, NodeThatSendsFlightsOfOtherRanksIsLost) {
  host();
  NodesMember& other = member(join_request(1), log_);
  ASSERT_TRUE(both_start());
  other.send_flight({.rank = Rank(0)});
  ASSERT_TRUE(comes_to([&] { return host_log_.orders.size() == 2; }));
  EXPECT_THAT(host_log_.flights, IsEmpty());
}

TEST_F(NodesTest, MemberWaitsForNode0ToListen) {
  host();
  const std::uint16_t port = port_;
  unhost();
  member(join_request(1), log_, {.patience = milliseconds(1)});
  ASSERT_TRUE(comes_to([&] { return !log_.notices.empty(); }));
  EXPECT_THAT(log_.notices[0],
              HasSubstr("waiting for node 0 at 127.0.0.1:" + std::to_string(port)));
  host(2, {}, port);
  EXPECT_TRUE(both_start());
}

TEST_F(NodesTest, MemberReconnectsToNode0BeforeTheStart) {
  host(3);
  const std::uint16_t port = port_;
  NodesLog log;
  member(join_request(1, 3), log);
  ASSERT_TRUE(comes_to([&] { return host_->missing().starts_with("node 2;"); }));
  unhost();
  ASSERT_TRUE(comes_to([&] { return !log.notices.empty(); }));
  EXPECT_THAT(log.notices[0], HasSubstr("again: its connection has ended"));
  host(3, {}, port);
  member(join_request(2, 3), log_);
  EXPECT_TRUE(comes_to([&] { return log.orders.size() == 1 && log_.orders.size() == 1; }));
}

TEST_F(NodesTest, MemberTimesOutAndNamesTheAddressOfNode0) {
  host();
  unhost();
  member(join_request(1), log_, {.join_timeout = milliseconds(100)});
  ASSERT_TRUE(comes_to([&] { return !log_.errors.empty(); }));
  EXPECT_THAT(log_.errors[0],
              AllOf(HasSubstr("node 0 at 127.0.0.1:" + std::to_string(port_)),
                    HasSubstr("within 0.1 s: connect: connection refused (a loopback "
                              "address, so this machine itself: node 0 must run here); is "),
                    HasSubstr("--node-rank 0")));
  EXPECT_THAT(log_.orders, IsEmpty());
}

TEST_F(NodesTest, MemberTimesOutIfTheNameOfNode0HasNoAddress) {
  address_ = "no such host";
  port_ = 29500;
  member(join_request(1), log_, {.join_timeout = seconds(1)});
  ASSERT_TRUE(comes_to([&] { return !log_.errors.empty(); }));
  EXPECT_THAT(log_.errors[0], HasSubstr("node 0 at no such host:29500"));
}

TEST_F(NodesTest, Node0NamesMissingNodes) {
  host(3, {.join_timeout = milliseconds(500), .patience = milliseconds(300)});
  member(join_request(2, 3), log_);
  ASSERT_TRUE(comes_to([&] { return !host_log_.notices.empty(); }));
  EXPECT_EQ(host_log_.notices[0],
            "waiting for node 1; only node 0 (host0), node 2 (host2) have joined");
  ASSERT_TRUE(comes_to([&] { return log_.orders.size() == 1 && host_log_.orders.size() == 1; }));
  EXPECT_THAT(std::get<StopNode>(log_.orders[0]).verdict.headline,
              HasSubstr("node 1 did not join within 0.5 s; only "));
}

TEST_F(NodesTest, Node0NamesNodesThatDoNotEndTheirWorkers) {
  host(2, {.stop_patience = milliseconds(1)});
  member(join_request(1), log_);
  ASSERT_TRUE(both_start());
  host_->report(NodeFailed{0, /*may_restart=*/false, {.status = 7}});
  host_->report(NodeStopped{0});
  ASSERT_TRUE(comes_to([&] { return !host_log_.notices.empty(); }));
  EXPECT_EQ(host_log_.notices[0], "waiting for node 1 (host1) to end its workers");
}

TEST_F(NodesTest, RefusalIsReportedOnBothNodes) {
  host(3);
  member(join_request(1, 3), log_);
  JoinRequest wrong = join_request(2, 3);
  wrong.run_id = "another";
  NodesLog log, second;
  member(wrong, log);
  ASSERT_TRUE(comes_to([&] { return !log.errors.empty(); }));
  EXPECT_THAT(log.errors[0], HasSubstr("refused this node: it has --rdzv-id 'another'"));
  EXPECT_THAT(host_log_.notices.back(), HasSubstr("was refused: it has --rdzv-id 'another'"));
  member(join_request(1, 3), second);
  ASSERT_TRUE(comes_to([&] { return !second.errors.empty(); }));
  EXPECT_THAT(second.errors[0], HasSubstr("--node-rank 1 is taken: host1 has it"));
}

TEST_F(NodesTest, NodeWithAnotherCommandIsRefused) {
  host();
  JoinRequest wrong = join_request(1);
  wrong.command = "distrun test";
  member(wrong, log_);
  ASSERT_TRUE(comes_to([&] { return !log_.errors.empty(); }));
  EXPECT_EQ(log_.errors[0], "node 0 at 127.0.0.1:" + std::to_string(port_) +
                                " refused this node: it runs distrun test, node 0 runs distrun "
                                "launch: run the same command on every node");
}

TEST_F(NodesTest, LostMemberStopsTheRun) {
  host();
  member(join_request(1), log_);
  ASSERT_TRUE(both_start());
  members_.clear();  // The connection closes without a message.
  ASSERT_TRUE(comes_to([&] { return host_log_.orders.size() == 2; }));
  EXPECT_EQ(describe(std::get<StopNode>(host_log_.orders[1]).verdict),
            "node 1 (host1): lost: its connection has ended");
}

TEST_F(NodesTest, LosingNode0StopsTheOtherNodes) {
  host();
  member(join_request(1), log_);
  ASSERT_TRUE(both_start());
  unhost();
  ASSERT_TRUE(comes_to([&] { return log_.orders.size() == 2; }));
  const auto stop = std::get<StopNode>(log_.orders[1]);
  EXPECT_TRUE(stop.is_last);
  EXPECT_EQ(stop.verdict.status, 125);
  EXPECT_EQ(describe(stop.verdict), "node 0 (host0): lost: its connection has ended");
}

TEST_F(NodesTest, ConnectionsSurviveANewStore) {
  host();
  NodesMember& other = member(join_request(1), log_);
  ASSERT_TRUE(both_start());
  store_->start_over();
  other.report(NodeSucceeded{0});
  host_->report(NodeSucceeded{0});
  EXPECT_TRUE(comes_to([&] { return log_.orders.size() == 2; }));
  store_.reset();
}

TEST_F(NodesTest, ClosesInvalidConnectionsAndContinues) {
  host(2, {.request_timeout = seconds(2)});
  EXPECT_TRUE(is_dropped("GET / HTTP/1.1\n"));
  EXPECT_TRUE(is_dropped(to_line(NodeSucceeded{0})));
  EXPECT_TRUE(is_dropped(std::string(100'000, 'x')));
  EXPECT_TRUE(is_dropped(R"({"type": "join")")) << "it never says the rest";
  EXPECT_EQ(host_log_.notices.size(), 4u);
  EXPECT_THAT(host_log_.notices[0],
              AllOf(HasSubstr("a client at 127.0.0.1:"),
                    HasSubstr(" is not a node of this run: it does not speak")));
  EXPECT_THAT(host_log_.notices[1], HasSubstr("does not begin with a request to join"));
  EXPECT_THAT(host_log_.notices[2], HasSubstr("it sends more than 65536 bytes without an end"));
  EXPECT_THAT(host_log_.notices[3], HasSubstr("did not ask to join in time"));
  member(join_request(1), log_);
  EXPECT_TRUE(both_start());
}

TEST_F(NodesTest, ReportsOnlyTheNumberOfManyRefusedConnections) {
  host();
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(is_dropped("garbage\n"));
  ASSERT_EQ(host_log_.notices.size(), 7u);
  EXPECT_THAT(host_log_.notices[5], HasSubstr("10 connections were rejected so far"));
  EXPECT_THAT(host_log_.notices[6], HasSubstr("20 connections were rejected so far"));
}

TEST_F(NodesTest, LimitsConnectionsThatHaveNotJoined) {
  host();
  std::vector<std::unique_ptr<tcp::socket>> strangers;
  for (int i = 0; i < 100; ++i) {
    strangers.push_back(std::make_unique<tcp::socket>(io_));
    strangers.back()->connect({asio::ip::make_address("127.0.0.1"), port_});
    strangers.back()->send(asio::buffer(std::string(1, static_cast<char>(kNodeGreeting))));
  }
  EXPECT_TRUE(is_dropped("")) << "without waiting for its time to be over";
}

}  // namespace
}  // namespace distrun
