// Node 0 and others on real sockets, in one event loop.
#include <deque>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "distrun/store_server.h"
#include "launcher/nodes/nodes_host.h"
#include "launcher/nodes/nodes_member.h"
#include "store/protocol/request.h"
#include "store/server/store_server_internals.h"
#include "store/test/frames.h"

namespace distrun {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

JoinRequest request(int node, int nodes = 2) {
  return {.run_id = "run",
          .node = node,
          .nodes = nodes,
          .role = "default",
          .host = "host" + std::to_string(node)};
}

struct Log {
  std::vector<NodeOrder> orders;
  std::vector<std::string> errors, notices;
  std::vector<int> renewed;
  std::vector<NodeOperations> operations;
  std::vector<RankFlight> flights;

  NodesHandlers handlers() {
    return {.on_order = [this](const NodeOrder& order) { orders.push_back(order); },
            .on_renew_store = [this](int attempt) { renewed.push_back(attempt); },
            .on_error = [this](const Error& error) { errors.push_back(error.message); },
            .on_operations = [this](const NodeOperations& all) { operations.push_back(all); },
            .on_flight = [this](const RankFlight& flight) { flights.push_back(flight); },
            .on_notice = [this](const std::string& text) { notices.push_back(text); }};
  }
};

class NodesTest : public ::testing::Test {
 protected:
  // Starts node 0, on a free port by default.
  void host(int nodes = 2, NodesHost::Options options = {}, std::uint16_t port = 0) {
    host_.emplace(io_, request(0, nodes), options, host_log_.handlers());
    const auto take = [this](tcp::socket socket, std::string received) {
      if (host_) host_->take(std::move(socket), std::move(received));
    };
    const auto check_key = [this](const tcp::endpoint& client, std::string_view key) {
      return host_ ? host_->check_key(client, key) : Result<bool>(false);
    };
    store_ = StoreServerInternals::listen(io_, {.port = port}, take, check_key).value();
    port_ = store_->port();
    host_->join();
  }

  void unhost() {
    host_.reset();
    store_.reset();
  }

  NodesMember& member(const JoinRequest& asks, Log& log, NodesMember::Options options = {}) {
    options.address = {.host = address_, .port = port_};
    members_.push_back(std::make_unique<NodesMember>(io_, asks, options, log.handlers()));
    members_.back()->join();
    return *members_.back();
  }

  // Runs the event loop until `holds`, up to ten seconds.
  template <class Condition>
  bool comes_to(const Condition& holds) {
    const auto deadline = std::chrono::steady_clock::now() + seconds(10);
    while (!holds() && std::chrono::steady_clock::now() < deadline) {
      io_.restart();
      io_.run_one_until(deadline);
    }
    return holds();
  }

  bool both_start() {
    return comes_to([&] { return host_log_.orders.size() == 1 && log_.orders.size() == 1; }) &&
           std::holds_alternative<StartNode>(log_.orders[0]);
  }

  // Sends `bytes` as a node; true if node 0 closes the connection within ten seconds.
  bool is_dropped(const std::string& bytes) {
    return is_closed_after(std::string(1, static_cast<char>(kNodeGreeting)) + bytes);
  }

  // As a client of the store that sets a key.
  bool is_refused_with(const std::string& key) {
    return is_closed_after(
        testing::greeting() +
        testing::frame(RequestCode::kSet, testing::text(key) + testing::text("")));
  }

  bool is_closed_after(const std::string& bytes) {
    tcp::socket socket(io_);
    socket.connect({asio::ip::make_address("127.0.0.1"), port_});
    socket.send(asio::buffer(bytes));
    bool dropped = false;
    std::array<char, 1> byte;
    socket.async_receive(asio::buffer(byte), [&](auto error, std::size_t) { dropped = !!error; });
    const bool came = comes_to([&] { return dropped; });
    socket.close();
    io_.restart();
    io_.poll();
    return came;
  }

  asio::io_context io_;
  std::unique_ptr<StoreServer> store_;
  std::string address_ = "127.0.0.1";
  std::uint16_t port_ = 0;
  Log host_log_, log_;
  std::optional<NodesHost> host_;
  std::vector<std::unique_ptr<NodesMember>> members_;
};

TEST_F(NodesTest, RunStartsAndEndsOnAllNodes) {
  host();
  NodesMember& other = member(request(1), log_);
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
  NodesMember& other = member(request(1), log_);
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
    NodesMember& other = member(request(1), log_, {.clock = clock});
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
  NodesMember& other = member(request(1), log_);
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
  NodesMember& other = member(request(1), log_);
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
  member(request(1), log_);
  ASSERT_TRUE(both_start());
  // After the first answers, node 0 asks only once a second.
  ASSERT_TRUE(comes_to([&] { return !host_->silent().empty(); }));
  EXPECT_EQ(host_->silent()[0].node, 1);
  EXPECT_EQ(host_->silent()[0].first, 1);
}

TEST_F(NodesTest, NodeThatAnswersIsNotSilent) {
  host();
  member(request(1), log_);
  ASSERT_TRUE(both_start());
  EXPECT_THAT(host_->silent(), IsEmpty());
}

TEST_F(NodesTest, NodeThatSendsOperationsOfOtherRanksIsLost) {
  host();
  NodesMember& other = member(request(1), log_);
  ASSERT_TRUE(both_start());
  other.send_operations(0, {all_reduce_of(0, OperationTime())}, 0);
  ASSERT_TRUE(comes_to([&] { return host_log_.orders.size() == 2; }));
  EXPECT_EQ(std::get<StopNode>(host_log_.orders[1]).verdict.headline,
            "lost: it sends operations of other nodes' ranks");
  EXPECT_THAT(host_log_.operations, IsEmpty());
}

TEST_F(NodesTest, FlightsArriveBeforeTheEndOfTheAttempt) {
  host();
  NodesMember& other = member(request(1), log_);
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
  NodesMember& other = member(request(1), log_);
  ASSERT_TRUE(both_start());
  other.send_flight({.rank = Rank(0)});
  ASSERT_TRUE(comes_to([&] { return host_log_.orders.size() == 2; }));
  EXPECT_THAT(host_log_.flights, IsEmpty());
}

TEST_F(NodesTest, MemberWaitsForNode0ToListen) {
  host();
  const std::uint16_t port = port_;
  unhost();
  member(request(1), log_, {.patience = milliseconds(1)});
  ASSERT_TRUE(comes_to([&] { return !log_.notices.empty(); }));
  EXPECT_THAT(log_.notices[0],
              HasSubstr("waiting for node 0 at 127.0.0.1:" + std::to_string(port)));
  host(2, {}, port);
  EXPECT_TRUE(both_start());
}

TEST_F(NodesTest, MemberReconnectsToNode0BeforeTheStart) {
  host(3);
  const std::uint16_t port = port_;
  Log log;
  member(request(1, 3), log);
  ASSERT_TRUE(comes_to([&] { return host_->missing().starts_with("node 2;"); }));
  unhost();
  ASSERT_TRUE(comes_to([&] { return !log.notices.empty(); }));
  EXPECT_THAT(log.notices[0], HasSubstr("again: its connection has ended"));
  host(3, {}, port);
  member(request(2, 3), log_);
  EXPECT_TRUE(comes_to([&] { return log.orders.size() == 1 && log_.orders.size() == 1; }));
}

TEST_F(NodesTest, MemberTimesOutAndNamesTheAddressOfNode0) {
  host();
  unhost();
  member(request(1), log_, {.join_timeout = milliseconds(100)});
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
  member(request(1), log_, {.join_timeout = seconds(1)});
  ASSERT_TRUE(comes_to([&] { return !log_.errors.empty(); }));
  EXPECT_THAT(log_.errors[0], HasSubstr("node 0 at no such host:29500"));
}

TEST_F(NodesTest, Node0NamesMissingNodes) {
  host(3, {.join_timeout = milliseconds(500), .patience = milliseconds(300)});
  member(request(2, 3), log_);
  ASSERT_TRUE(comes_to([&] { return !host_log_.notices.empty(); }));
  EXPECT_EQ(host_log_.notices[0],
            "waiting for node 1; only node 0 (host0), node 2 (host2) have joined");
  ASSERT_TRUE(comes_to([&] { return log_.orders.size() == 1 && host_log_.orders.size() == 1; }));
  EXPECT_THAT(std::get<StopNode>(log_.orders[0]).verdict.headline,
              HasSubstr("node 1 did not join within 0.5 s; only "));
}

TEST_F(NodesTest, Node0NamesNodesThatDoNotEndTheirWorkers) {
  host(2, {.stop_patience = milliseconds(1)});
  member(request(1), log_);
  ASSERT_TRUE(both_start());
  host_->report(NodeFailed{0, /*may_restart=*/false, {.status = 7}});
  host_->report(NodeStopped{0});
  ASSERT_TRUE(comes_to([&] { return !host_log_.notices.empty(); }));
  EXPECT_EQ(host_log_.notices[0], "waiting for node 1 (host1) to end its workers");
}

TEST_F(NodesTest, RefusalIsReportedOnBothNodes) {
  host(3);
  member(request(1, 3), log_);
  JoinRequest wrong = request(2, 3);
  wrong.run_id = "another";
  Log log, second;
  member(wrong, log);
  ASSERT_TRUE(comes_to([&] { return !log.errors.empty(); }));
  EXPECT_THAT(log.errors[0], HasSubstr("refused this node: it has --rdzv-id 'another'"));
  EXPECT_THAT(host_log_.notices.back(), HasSubstr("was refused: it has --rdzv-id 'another'"));
  member(request(1, 3), second);
  ASSERT_TRUE(comes_to([&] { return !second.errors.empty(); }));
  EXPECT_THAT(second.errors[0], HasSubstr("--node-rank 1 is taken: host1 has it"));
}

TEST_F(NodesTest, LostMemberStopsTheRun) {
  host();
  member(request(1), log_);
  ASSERT_TRUE(both_start());
  members_.clear();  // The connection closes without a message.
  ASSERT_TRUE(comes_to([&] { return host_log_.orders.size() == 2; }));
  EXPECT_EQ(describe(std::get<StopNode>(host_log_.orders[1]).verdict),
            "node 1 (host1): lost: its connection has ended");
}

TEST_F(NodesTest, LosingNode0StopsTheOtherNodes) {
  host();
  member(request(1), log_);
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
  NodesMember& other = member(request(1), log_);
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
  member(request(1), log_);
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

// Another server, which sends `answer` to each client.
class Stranger {
 public:
  Stranger(asio::io_context& io, std::string answer)
      : acceptor_(io, {asio::ip::make_address("127.0.0.1"), 0}), answer_(std::move(answer)) {
    accept();
  }
  std::uint16_t port() const { return acceptor_.local_endpoint().port(); }
  int connections() const { return static_cast<int>(sockets_.size()); }

 private:
  void accept() {
    acceptor_.async_accept([this](auto error, tcp::socket socket) {
      if (error) return;
      if (!answer_.empty()) socket.send(asio::buffer(answer_));
      sockets_.push_back(std::move(socket));
      accept();
    });
  }
  tcp::acceptor acceptor_;
  std::string answer_;
  std::deque<tcp::socket> sockets_;
};

// A node that asks to join and then does nothing, as if it were frozen.
tcp::socket frozen_node(asio::io_context& io, std::uint16_t port) {
  tcp::socket socket(io);
  socket.connect({asio::ip::make_address("127.0.0.1"), port});
  socket.send(asio::buffer(static_cast<char>(kNodeGreeting) + to_line(request(1))));
  return socket;
}

TEST_F(NodesTest, ANodeThatDoesNotAnswerIsReportedAndThenLost) {
  host(2, {.heartbeat = milliseconds(100)});
  const tcp::socket frozen = frozen_node(io_, port_);
  ASSERT_TRUE(comes_to([&] { return host_log_.orders.size() == 2; }));
  EXPECT_THAT(host_log_.notices, Contains("node 1 (host1) has been silent for 0.2 s"));
  EXPECT_EQ(describe(std::get<StopNode>(host_log_.orders[1]).verdict),
            "node 1 (host1): lost: it has been silent for 0.3 s");
}

TEST_F(NodesTest, WithoutAHeartbeatANodeMayBeSilent) {
  host(2, {.silence = milliseconds(1), .heartbeat = milliseconds(0)});
  const tcp::socket frozen = frozen_node(io_, port_);
  ASSERT_TRUE(comes_to([&] { return !host_->silent().empty(); }));
  EXPECT_THAT(host_log_.notices, IsEmpty());
  EXPECT_EQ(host_log_.orders.size(), 1u);
}

TEST_F(NodesTest, WhenTheRunStopsASilentNodeIsNotWaitedFor) {
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

TEST_F(NodesTest, ANode0ThatDoesNotAnswerIsReportedAndThenLost) {
  const Stranger frozen(io_, to_line(JoinAccepted{"host0"}) + to_line(StartNode{.world_size = 2}));
  port_ = frozen.port();
  member(request(1), log_, {.heartbeat = milliseconds(100)});
  ASSERT_TRUE(comes_to([&] { return log_.orders.size() == 2; }));
  EXPECT_THAT(log_.notices, Contains("node 0 at 127.0.0.1:" + std::to_string(port_) +
                                     " has been silent for 0.2 s"));
  const NodesVerdict verdict = std::get<StopNode>(log_.orders[1]).verdict;
  EXPECT_EQ(describe(verdict), "node 0 (host0): lost: it has been silent for 0.3 s");
  EXPECT_FALSE(verdict.is_of_node_0);
}

TEST_F(NodesTest, ReportsAnotherServerAtThePort) {
  for (const std::string answer : {"HTTP/1.1 400 Bad Request\r\n\r\n", ""}) {
    const Stranger stranger(io_, answer);
    port_ = stranger.port();
    Log log;
    member(request(1), log, {.answer_timeout = seconds(2)});
    ASSERT_TRUE(comes_to([&] { return !log.errors.empty(); })) << answer;
    EXPECT_THAT(log.errors[0],
                AllOf(HasSubstr("the program that listens at 127.0.0.1:" + std::to_string(port_)),
                      HasSubstr("is not node 0 of this run")));
    EXPECT_EQ(stranger.connections(), 1);
  }
}

// Does not let nodes join: closes their connections, or does not answer. If it is a store, it
// answers the pings of its clients, and closes after a request that it does not know.
class OtherServer {
 public:
  struct Options {
    bool closes_nodes = true, is_store = true;
  };
  OtherServer(asio::io_context& io, const Options& options)
      : acceptor_(io, {asio::ip::make_address("127.0.0.1"), 0}), options_(options) {
    accept();
  }
  std::uint16_t port() const { return acceptor_.local_endpoint().port(); }
  int closed() const { return closed_; }

 private:
  using Socket = std::shared_ptr<tcp::socket>;

  void accept() {
    acceptor_.async_accept([this](auto error, tcp::socket accepted) {
      if (error) return;
      read(std::make_shared<tcp::socket>(std::move(accepted)));
      accept();
    });
  }
  void read(const Socket& socket) {
    socket->async_read_some(asio::buffer(buffer_), [this, socket](auto error, std::size_t size) {
      const std::string_view bytes(buffer_.data(), error ? 0 : size);
      const std::size_t hello = testing::greeting().size(), ping = 1 + sizeof(std::uint32_t);
      const bool is_node = bytes.starts_with(static_cast<char>(kNodeGreeting));
      if (options_.is_store && bytes.starts_with(testing::greeting()) && size == hello + ping) {
        socket->send(asio::buffer(bytes.substr(hello + 1)));
        read(socket);
      } else if (is_node && !options_.closes_nodes) {
        read(socket);
      } else {
        ++closed_;
      }
    });
  }
  tcp::acceptor acceptor_;
  const Options options_;
  std::array<char, 4096> buffer_;
  int closed_ = 0;
};

// A node 0 that is about to exit closes at once, too.
TEST_F(NodesTest, RetriesAServerThatOnlyClosesAFewTimes) {
  const OtherServer server(io_, {.is_store = false});
  port_ = server.port();
  member(request(1), log_);
  ASSERT_TRUE(comes_to([&] { return !log_.errors.empty(); }));
  EXPECT_THAT(log_.errors[0], HasSubstr("is not node 0 of this run: it closed the connection"));
  EXPECT_EQ(server.closed(), 6) << "five nodes and a client of a store";
}

// Older versions of PyTorch may close the connection of a node.
TEST_F(NodesTest, ReportsATorchrunAtTheAddressOfNode0) {
  for (const bool closes : {true, false}) {
    const OtherServer server(io_, {.closes_nodes = closes});
    port_ = server.port();
    Log log;
    member(request(1), log, {.probe_after = milliseconds(10)});
    ASSERT_TRUE(comes_to([&] { return !log.errors.empty(); }));
    EXPECT_EQ(log.errors[0], "node 0 at 127.0.0.1:" + std::to_string(port_) +
                                 " runs torchrun, or another program with a TCPStore of PyTorch; "
                                 "start distrun launch on every node, with a port that is free on "
                                 "node 0 (--master-port)");
  }
}

TEST_F(NodesTest, DoesNotMistakeASlowNode0ForATorchrun) {
  std::deque<tcp::socket> unanswered;
  const auto keep = [&](tcp::socket socket, std::string) {
    unanswered.push_back(std::move(socket));
  };
  const auto store = StoreServerInternals::listen(io_, {}, keep).value();
  port_ = store->port();
  member(request(1), log_, {.answer_timeout = milliseconds(200), .probe_after = milliseconds(0)});
  ASSERT_TRUE(comes_to([&] { return !log_.errors.empty(); }));
  EXPECT_THAT(log_.errors[0], HasSubstr("is not node 0 of this run: it does not answer; "));
}

TEST_F(NodesTest, ReportsADistrunOfOneNodeAtTheAddressOfNode0) {
  const auto store = StoreServer::listen(io_, {}).value();
  port_ = store->port();
  member(request(1), log_);
  ASSERT_TRUE(comes_to([&] { return !log_.errors.empty(); }));
  EXPECT_THAT(log_.errors[0],
              HasSubstr("is not node 0 of this run: it is a distrun that waits for no other nodes "
                        "(is --nnodes missing there?); on every node"));
  EXPECT_EQ(store->status().refused, 5u);
}

TEST_F(NodesTest, ATorchrunOfThisRunEndsItBeforeItsStart) {
  for (const std::string key : {"/run/torchelastic/role_info/1", "/torch.rendezvous.run"}) {
    host_log_ = log_ = {};
    host(3);
    member(request(1, 3), log_);
    EXPECT_TRUE(is_refused_with(key)) << key;
    ASSERT_TRUE(comes_to([&] { return !host_log_.orders.empty(); })) << key;
    const NodesVerdict verdict = std::get<StopNode>(host_log_.orders[0]).verdict;
    EXPECT_EQ(describe(verdict),
              "a node at 127.0.0.1 runs torchrun; start distrun launch on every node");
    EXPECT_EQ(verdict.status, 125);
    members_.clear();
    unhost();
  }
}

TEST_F(NodesTest, ATorchrunOfAnotherRunIsRefused) {
  host();
  EXPECT_TRUE(is_refused_with("/torch.rendezvous.other"));
  EXPECT_EQ(store_->status().closed.at(0).reason,
            "it is torchrun; start distrun launch on every node");
  EXPECT_THAT(
      host_log_.notices,
      ElementsAre("a node at 127.0.0.1 was refused: it runs torchrun, with another --rdzv-id"));
  member(request(1), log_);
  EXPECT_TRUE(both_start());
}

TEST_F(NodesTest, WorkersMayUseAnyKeyOnceTheRunHasStarted) {
  host();
  member(request(1), log_);
  ASSERT_TRUE(both_start());
  tcp::socket worker(io_);
  worker.connect({asio::ip::make_address("127.0.0.1"), port_});
  worker.send(
      asio::buffer(testing::greeting() +
                   testing::frame(RequestCode::kSet,
                                  testing::text("/torch.rendezvous.run") + testing::text(""))));
  EXPECT_TRUE(comes_to([&] { return StoreServerInternals::table(*store_).key_count() == 1; }));
}

}  // namespace
}  // namespace distrun
