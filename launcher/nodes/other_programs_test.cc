// Programs that are not nodes of the run: other servers at the port of node 0, and torchrun.
#include <array>
#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <string_view>

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
using testing::AnsweringServer;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::join_request;
using testing::NodesLog;

class OtherProgramsTest : public testing::NodesFixture {};

TEST_F(OtherProgramsTest, ReportsAnotherServerAtThePort) {
  for (const std::string answer : {"HTTP/1.1 400 Bad Request\r\n\r\n", ""}) {
    const AnsweringServer stranger(io_, answer);
    port_ = stranger.port();
    NodesLog log;
    member(join_request(1), log, {.answer_timeout = seconds(2)});
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
TEST_F(OtherProgramsTest, RetriesAServerThatOnlyClosesAFewTimes) {
  const OtherServer server(io_, {.is_store = false});
  port_ = server.port();
  member(join_request(1), log_);
  ASSERT_TRUE(comes_to([&] { return !log_.errors.empty(); }));
  EXPECT_THAT(log_.errors[0], HasSubstr("is not node 0 of this run: it closed the connection"));
  EXPECT_EQ(server.closed(), 6) << "five nodes and a client of a store";
}

// Older versions of PyTorch may close the connection of a node.
TEST_F(OtherProgramsTest, ReportsATorchrunAtTheAddressOfNode0) {
  for (const bool closes : {true, false}) {
    const OtherServer server(io_, {.closes_nodes = closes});
    port_ = server.port();
    NodesLog log;
    member(join_request(1), log, {.probe_after = milliseconds(10)});
    ASSERT_TRUE(comes_to([&] { return !log.errors.empty(); }));
    EXPECT_EQ(log.errors[0], "node 0 at 127.0.0.1:" + std::to_string(port_) +
                                 " runs torchrun, or another program with a TCPStore of PyTorch; "
                                 "start distrun launch on every node, with a port that is free on "
                                 "node 0 (--master-port)");
  }
}

TEST_F(OtherProgramsTest, NamesTheCommandOfThisNodeInsteadOfTorchrun) {
  const OtherServer server(io_, {});
  port_ = server.port();
  JoinRequest asks = join_request(1);
  asks.command = "distrun test";
  member(asks, log_, {.probe_after = milliseconds(10)});
  ASSERT_TRUE(comes_to([&] { return !log_.errors.empty(); }));
  EXPECT_THAT(log_.errors[0], HasSubstr("; start distrun test on every node, with a port"));
}

TEST_F(OtherProgramsTest, DoesNotMistakeASlowNode0ForATorchrun) {
  std::deque<tcp::socket> unanswered;
  const auto keep = [&](tcp::socket socket, std::string) {
    unanswered.push_back(std::move(socket));
  };
  const auto store = StoreServerInternals::listen(io_, {}, keep).value();
  port_ = store->port();
  member(join_request(1), log_,
         {.answer_timeout = milliseconds(200), .probe_after = milliseconds(0)});
  ASSERT_TRUE(comes_to([&] { return !log_.errors.empty(); }));
  EXPECT_THAT(log_.errors[0], HasSubstr("is not node 0 of this run: it does not answer; "));
}

TEST_F(OtherProgramsTest, ReportsADistrunOfOneNodeAtTheAddressOfNode0) {
  const auto store = StoreServer::listen(io_, {}).value();
  port_ = store->port();
  member(join_request(1), log_);
  ASSERT_TRUE(comes_to([&] { return !log_.errors.empty(); }));
  EXPECT_THAT(log_.errors[0],
              HasSubstr("is not node 0 of this run: it is a distrun that waits for no other nodes "
                        "(is --nnodes missing there?); on every node"));
  EXPECT_EQ(store->status().refused, 5u);
}

TEST_F(OtherProgramsTest, ATorchrunOfThisRunEndsItBeforeItsStart) {
  for (const std::string key : {"/run/torchelastic/role_info/1", "/torch.rendezvous.run"}) {
    host_log_ = log_ = {};
    host(3);
    member(join_request(1, 3), log_);
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

TEST_F(OtherProgramsTest, ATorchrunOfAnotherRunIsRefused) {
  host();
  EXPECT_TRUE(is_refused_with("/torch.rendezvous.other"));
  EXPECT_EQ(store_->status().closed.at(0).reason,
            "it is torchrun; start distrun launch on every node");
  EXPECT_THAT(
      host_log_.notices,
      ElementsAre("a node at 127.0.0.1 was refused: it runs torchrun, with another --rdzv-id"));
  member(join_request(1), log_);
  EXPECT_TRUE(both_start());
}

TEST_F(OtherProgramsTest, WorkersMayUseAnyKeyOnceTheRunHasStarted) {
  host();
  member(join_request(1), log_);
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
