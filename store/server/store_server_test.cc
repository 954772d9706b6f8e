#include "distrun/store_server.h"

#include <boost/asio/read.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/units.h"
#include "store/protocol/wire.h"
#include "store/test/served_store.h"

namespace distrun {
namespace {

namespace asio = boost::asio;
using testing::bytes_of;
using testing::Client;
using ::testing::ElementsAre;
using testing::frame;
using testing::greeting;
using testing::StoreServerTest;
using testing::text;
using ::testing::UnorderedElementsAre;

TEST_F(StoreServerTest, AnswersInOrder) {
  Client client = greeted_client();
  client.send(frame(RequestCode::kSet, text("k") + text("v")) +
              frame(RequestCode::kGet, text("k")) +
              frame(RequestCode::kAdd, text("n") + bytes_of<std::int64_t>(3)));
  EXPECT_EQ(client.receive(9 + 8), text("v") + bytes_of<std::int64_t>(3));
}

TEST_F(StoreServerTest, SetWakesAnotherClient) {
  Client waiting = greeted_client(), setting = greeted_client();
  waiting.send(frame(RequestCode::kWait, bytes_of<std::uint64_t>(1) + text("k")));
  ASSERT_TRUE(comes_to([&] { return table().waiting_count() == 1; }));
  setting.send(frame(RequestCode::kSet, text("k") + text("v")));
  EXPECT_EQ(waiting.receive(1), std::string(1, '\0'));
}

TEST_F(StoreServerTest, LargeValuesTravelBothWays) {
  const std::string value(8 * kMiB, 'x');
  Client client = greeted_client();
  ASSERT_TRUE(client.send(frame(RequestCode::kSet, text("k") + text(value))));
  client.send(frame(RequestCode::kGet, text("k")));
  EXPECT_EQ(client.receive(8 + value.size()), text(value));
  client.send(frame(RequestCode::kDeleteKey, text("k")));
  EXPECT_EQ(client.receive(8), bytes_of<std::int64_t>(1));
  EXPECT_LT(see([&] { return server_->status().bytes; }), 64 * kKiB) << "no buffer stays large";
}

TEST_F(StoreServerTest, WaitEndsWithoutAnswerWhenTheServerEnds) {
  Client client = greeted_client();
  ASSERT_TRUE(client.round_trip());
  client.send(frame(RequestCode::kWait, bytes_of<std::uint64_t>(1) + text("never")));
  stop();
  EXPECT_TRUE(client.is_closed_by_peer());
}

TEST_F(StoreServerTest, HandlersMayOutliveTheServer) {
  stop();
  asio::io_context io;
  auto server = StoreServer::listen(io, {}).value();
  Client client(server->port());
  client.send(greeting() + frame(RequestCode::kWait, bytes_of<std::uint64_t>(1) + text("k")));
  while (server->status().waiting == 0) io.run_one_for(std::chrono::seconds(10));
  server.reset();
  io.poll();  // The sanitizer reports a use after free.
  EXPECT_TRUE(client.is_closed_by_peer());
}

TEST_F(StoreServerTest, NamesTheHolderOfAPortInUse) {
  asio::io_context io;
  const auto second = StoreServer::listen(io, {.port = port_});
  ASSERT_TRUE(second.has_error());
  EXPECT_EQ(second.error().kind, ErrorKind::kAddressInUse);
  EXPECT_EQ(second.error().message, "127.0.0.1:" + std::to_string(port_) +
                                        ": address already in use by store_test (pid " +
                                        std::to_string(::getpid()) + ")");
}

// 192.0.2.0/24 is reserved for documentation.
TEST_F(StoreServerTest, RefusesAnAddressOfAnotherMachine) {
  asio::io_context io;
  const auto server = StoreServer::listen(io, {.host = "192.0.2.7"});
  ASSERT_TRUE(server.has_error());
  EXPECT_EQ(server.error().kind, ErrorKind::kAddressNotLocal);
  EXPECT_EQ(server.error().message, "192.0.2.7 is not an address of this machine");
}

TEST_F(StoreServerTest, RefusesAHostName) {
  asio::io_context io;
  const auto server = StoreServer::listen(io, {.host = "localhost"});
  ASSERT_TRUE(server.has_error());
  EXPECT_EQ(server.error().kind, ErrorKind::kInvalidArgument);
}

TEST_F(StoreServerTest, ListensOnIpv6AndOnBothFamilies) {
  stop();
  start({.host = "::1"});
  EXPECT_EQ(server_->address(), "[::1]:" + std::to_string(port_));
  EXPECT_TRUE(greeted_client("::1").round_trip());
  stop();
  start({.host = "::"});
  EXPECT_TRUE(greeted_client("::1").round_trip());
  EXPECT_TRUE(greeted_client("127.0.0.1").round_trip());
}

TEST_F(StoreServerTest, TakesOverAListeningDescriptor) {
  stop();
  asio::io_context io;
  asio::ip::tcp::acceptor acceptor(io, {asio::ip::make_address("127.0.0.1"), 0});
  const auto port = acceptor.local_endpoint().port();
  start({.listen_fd = acceptor.release()});
  EXPECT_EQ(port_, port);
  EXPECT_TRUE(greeted_client().round_trip());
}

TEST_F(StoreServerTest, RefusesADescriptorThatDoesNotListen) {
  const UniqueFd unix_socket(::socket(AF_UNIX, SOCK_STREAM, 0)),
      udp(::socket(AF_INET, SOCK_DGRAM, 0)), idle(::socket(AF_INET, SOCK_STREAM, 0));
  for (const int fd : {-1, 0, 1 << 20, unix_socket.get(), udp.get(), idle.get()}) {
    asio::io_context io;
    const auto server = StoreServer::listen(io, {.listen_fd = fd});
    ASSERT_TRUE(server.has_error());
    EXPECT_EQ(server.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_EQ(server.error().message,
              "file descriptor " + std::to_string(fd) + " is not a listening TCP socket");
  }
}

TEST_F(StoreServerTest, NewAttemptStartsWithoutKeysAndClients) {
  Client old = greeted_client();
  old.send(frame(RequestCode::kSet, text("k") + text("old")));
  ASSERT_TRUE(old.round_trip());
  // This client connects and writes, but is not accepted before the attempt ends.
  std::unique_ptr<Client> late;
  see([&] {
    late = std::make_unique<Client>(greeted_client());
    late->send(frame(RequestCode::kSet, text("k") + text("late")));
    server_->start_over();
    return true;
  });
  EXPECT_TRUE(old.is_closed_by_peer());
  EXPECT_TRUE(late->is_closed_by_peer());

  Client client = greeted_client();
  client.send(frame(RequestCode::kGet, text("k")) + frame(RequestCode::kGetNumKeys));
  EXPECT_EQ(client.receive(16), text("") + bytes_of<std::int64_t>(0));
  client.send(frame(RequestCode::kSet, text("k") + text("new")));
  ASSERT_TRUE(client.round_trip());
  EXPECT_EQ(see([&] { return table().key_count(); }), 1u);
  EXPECT_TRUE(greeted_client().round_trip()) << "the server still accepts";
}

TEST_F(StoreServerTest, ReportsWhichClientWaitsForWhichKeys) {
  Client idle = greeted_client(), waiting = greeted_client(), in_barrier = greeted_client();
  ASSERT_TRUE(idle.round_trip());
  waiting.send(frame(RequestCode::kSet, text("there") + text("")) +
               frame(RequestCode::kWait,
                     bytes_of<std::uint64_t>(3) + text("there") + text("missing") + text("gone")));
  in_barrier.send(frame(RequestCode::kBarrier, text("b") + bytes_of<std::int64_t>(3)));
  ASSERT_TRUE(comes_to([&] { return table().waiting_count() == 2; }));

  Client asking = greeted_client();
  asking.send(frame(RequestCode::kStatus));
  const auto size = number_at<std::uint64_t>(asking.receive(8));
  const auto status = store_status_from_json(asking.receive(size)).value();
  EXPECT_EQ(status.address, "127.0.0.1:" + std::to_string(port_));
  EXPECT_EQ(status.keys, 2u);
  EXPECT_EQ(status.connections, 4u);
  EXPECT_EQ(status.waiting, 2u);
  ASSERT_EQ(status.peers.size(), 4u);
  EXPECT_EQ(status.peers[0].address, waiting.address());
  EXPECT_EQ(status.peers[0].last_request, "wait");
  EXPECT_THAT(status.peers[0].wait.value().keys, UnorderedElementsAre("missing", "gone"));
  EXPECT_EQ(status.peers[1].address, in_barrier.address());
  EXPECT_EQ(status.peers[1].wait.value().arrived, 1);
  EXPECT_EQ(status.peers[1].wait.value().arrivals_wanted, 3);
  EXPECT_EQ(status.peers[2].address, idle.address());
  EXPECT_EQ(status.peers[2].last_request, "ping");
  EXPECT_FALSE(status.peers[2].wait);
}

TEST_F(StoreServerTest, RemembersRefusedClientsAndThoseThatGaveUp) {
  stop();
  std::vector<std::string> told;
  start({.on_refused = [&](const std::string& address, const Error& reason) {
    told.push_back(address + " " + reason.message);
  }});
  Client waiting = greeted_client(), hostile = greeted_client();
  waiting.send(frame(RequestCode::kWait, bytes_of<std::uint64_t>(1) + text("never")) +
               frame(RequestCode::kCancelWait));
  ASSERT_EQ(waiting.receive(1), "\1");
  waiting.send(frame(RequestCode::kCancelWait));  // Without a wait.
  ASSERT_EQ(waiting.receive(1), "\1");
  for (int i = 0; i < 20; ++i) {
    Client bad = greeted_client();
    bad.send("\x7F");
    ASSERT_TRUE(bad.is_closed_by_peer());
  }
  hostile.send("\x7E");
  ASSERT_TRUE(hostile.is_closed_by_peer());
  std::string gone_address;
  {
    Client dying = greeted_client();
    gone_address = dying.address();
    dying.send(frame(RequestCode::kWait, bytes_of<std::uint64_t>(1) + text("not yet")));
    ASSERT_TRUE(comes_to([&] { return table().waiting_count() == 1; }));
  }
  ASSERT_TRUE(comes_to([&] { return table().waiting_count() == 0; }));

  const auto status = see([&] { return server_->status(); });
  ASSERT_EQ(status.gave_up.size(), 2u);
  EXPECT_EQ(status.gave_up[0].address, gone_address);
  EXPECT_THAT(status.gave_up[0].wait.keys, ElementsAre("not yet"));
  EXPECT_EQ(status.gave_up[1].address, waiting.address());
  EXPECT_THAT(status.gave_up[1].wait.keys, ElementsAre("never"));
  EXPECT_EQ(status.refused, 21u);
  ASSERT_EQ(status.closed.size(), 16u) << "the last few";
  EXPECT_EQ(status.closed[0].address, hostile.address());
  EXPECT_EQ(status.closed[0].reason, "no request has the code 126");
  EXPECT_EQ(told.size(), 21u);
  EXPECT_EQ(told.back(), hostile.address() + " no request has the code 126");
}

TEST_F(StoreServerTest, HandsOverTheConnectionsOfNodes) {
  stop();
  std::vector<std::pair<boost::asio::ip::tcp::socket, std::string>> given;
  start({}, [&](boost::asio::ip::tcp::socket socket, std::string received) {
    given.emplace_back(std::move(socket), std::move(received));
  });
  const std::string much(3000, 'x');
  Client node(port_), late = greeted_client();
  node.send(std::string(1, static_cast<char>(kNodeGreeting)) + much);
  ASSERT_TRUE(comes_to([&] { return given.size() == 1; }));
  see([&] {
    server_->start_over();
    EXPECT_EQ(server_->connection_count(), 0u);
    // Includes bytes that the server had not read.
    auto& [socket, received] = given[0];
    socket.non_blocking(false);
    std::string rest(much.size() - received.size(), '\0');
    boost::asio::read(socket, boost::asio::buffer(rest));
    EXPECT_EQ(received + rest, much);
    socket.send(boost::asio::buffer("welcome", 7));
    given.clear();
    return true;
  });
  EXPECT_EQ(node.receive(7), "welcome");
  // Only the first byte greets; later it is an unknown request.
  Client client = greeted_client();
  client.send(std::string(1, static_cast<char>(kNodeGreeting)));
  EXPECT_TRUE(client.is_closed_by_peer());
  EXPECT_TRUE(given.empty());
}

TEST_F(StoreServerTest, ChecksKeysUntilItIsToldToStop) {
  stop();
  std::vector<std::string> seen;
  start({}, nullptr, [&](const auto&, std::string_view key) -> Result<bool> {
    seen.emplace_back(key);
    if (key == "bad") return Error{ErrorKind::kProtocol, "it uses a bad key"};
    return key != "last";
  });
  Client bad = greeted_client(), client = greeted_client();
  bad.send(frame(RequestCode::kSet, text("bad") + text("1")));
  EXPECT_TRUE(bad.is_closed_by_peer());
  EXPECT_EQ(see([&] { return server_->status(); }).closed.at(0).reason, "it uses a bad key");
  EXPECT_EQ(see([&] { return table().key_count(); }), 0u) << "refused before it is served";
  client.send(frame(RequestCode::kSet, text("last") + text("1")) +
              frame(RequestCode::kSet, text("bad") + text("1")));
  ASSERT_TRUE(comes_to([&] { return table().key_count() == 2; }));
  EXPECT_THAT(seen, ElementsAre("bad", "last"));
}

TEST_F(StoreServerTest, RefusesNodesIfNoneAreExpected) {
  Client node(port_);
  node.send(std::string(1, static_cast<char>(kNodeGreeting)));
  EXPECT_TRUE(node.is_closed_by_peer());
  EXPECT_EQ(see([&] { return server_->status(); }).closed.at(0).reason,
            "no request has the code 225");
}

}  // namespace
}  // namespace distrun
