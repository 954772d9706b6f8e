#include "store/server.h"


#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/server_testing.h"

namespace distrun {
namespace {

namespace asio = boost::asio;
using testing::Client;
using testing::StoreServerTest;
using testing::bytes_of;
using testing::frame;
using testing::greeting;
using testing::text;

TEST_F(StoreServerTest, AnswersInOrder) {
  Client client = greeted_client();
  client.send(frame(RequestCode::kSet, text("k") + text("v")) +
              frame(RequestCode::kGet, text("k")) +
              frame(RequestCode::kAdd, text("n") + bytes_of<std::int64_t>(3)));
  EXPECT_EQ(client.receive(9 + 8), text("v") + bytes_of<std::int64_t>(3));
}

TEST_F(StoreServerTest, OneClientsSetWakesAnother) {
  Client waiting = greeted_client(), setting = greeted_client();
  waiting.send(frame(RequestCode::kWait, bytes_of<std::uint64_t>(1) + text("k")));
  ASSERT_TRUE(comes_to([&] { return table_.waiting_count() == 1; }));
  setting.send(frame(RequestCode::kSet, text("k") + text("v")));
  EXPECT_EQ(waiting.receive(1), std::string(1, '\0'));
}

TEST_F(StoreServerTest, AMalformedFrameClosesItsConnectionAndNoOther) {
  Client good = greeted_client(), bad = greeted_client(), web(port_);
  bad.send("\x7F");
  web.send("GET / HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(bad.is_closed_by_peer());
  EXPECT_TRUE(web.is_closed_by_peer());
  EXPECT_TRUE(good.round_trip());
}

TEST_F(StoreServerTest, ARequestThatMakesNoSenseClosesItsConnection) {
  Client client = greeted_client();
  client.send(frame(RequestCode::kSet, text("k") + text("no number")) +
              frame(RequestCode::kAdd, text("k") + bytes_of<std::int64_t>(1)));
  EXPECT_TRUE(client.is_closed_by_peer());
  EXPECT_TRUE(greeted_client().round_trip());
}

TEST_F(StoreServerTest, AClientThatIsGoneIsForgotten) {
  {
    Client leaving = greeted_client();
    leaving.send(frame(RequestCode::kWait, bytes_of<std::uint64_t>(1) + text("k")));
  }
  Client staying = greeted_client();
  ASSERT_TRUE(staying.round_trip());
  EXPECT_TRUE(comes_to([&] { return server_->connection_count() == 1; }));
  staying.send(frame(RequestCode::kSet, text("k") + text("v")));
  EXPECT_TRUE(staying.round_trip());
}

TEST_F(StoreServerTest, LargeValuesTravelBothWays) {
  const std::string value(8 * kMiB, 'x');
  Client client = greeted_client();
  ASSERT_TRUE(client.send(frame(RequestCode::kSet, text("k") + text(value))));
  client.send(frame(RequestCode::kGet, text("k")));
  EXPECT_EQ(client.receive(8 + value.size()), text(value));
  EXPECT_TRUE(client.round_trip());
}

// A thousand replies of a mebibyte are asked for at once.  Without the bound the server would
// make them all, and not get to its other clients before.
TEST_F(StoreServerTest, AClientThatDoesNotReadIsNotServedFurtherAndHoldsUpNobody) {
  stop();
  start({.limits = {.unread_bytes_max = 1 * kMiB}});
  const std::string value(1 * kMiB, 'x');
  Client slow = greeted_client();
  slow.send(frame(RequestCode::kSet, text("k") + text(value)));
  std::string requests;
  for (int i = 0; i < 1000; ++i) requests += frame(RequestCode::kGet, text("k"));
  slow.send(requests + frame(RequestCode::kSet, text("end") + text("reached")));

  Client other = greeted_client();
  ASSERT_TRUE(other.round_trip());
  other.send(frame(RequestCode::kCheck, bytes_of<std::uint64_t>(1) + text("end")));
  EXPECT_EQ(other.receive(1), std::string(1, '\1')) << "all requests have been applied";

  // When it reads, it gets everything.
  other.send(frame(RequestCode::kWait, bytes_of<std::uint64_t>(1) + text("end")));
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(slow.receive(8 + value.size()), text(value)) << i;
  EXPECT_EQ(other.receive(1), std::string(1, '\0'));
}

TEST_F(StoreServerTest, ItsEndEndsAWaitWithoutAnAnswer) {
  Client client = greeted_client();
  ASSERT_TRUE(client.round_trip());
  client.send(frame(RequestCode::kWait, bytes_of<std::uint64_t>(1) + text("never")));
  stop();
  EXPECT_TRUE(client.is_closed_by_peer());
}

TEST_F(StoreServerTest, TheTableMayGoAfterTheServer) {
  stop();
  asio::io_context io;
  auto table = std::make_unique<StoreTable>();
  auto server = StoreServer::listen(io, *table, {}).value();
  Client client(server->port());
  client.send(greeting() + frame(RequestCode::kWait, bytes_of<std::uint64_t>(1) + text("k")));
  while (table->waiting_count() == 0) io.run_one_for(std::chrono::seconds(10));
  server.reset();
  table.reset();
  io.poll();  // The sanitizer sees a handler that looks at the table.
  EXPECT_TRUE(client.is_closed_by_peer());
}

TEST_F(StoreServerTest, APortInUseIsNamed) {
  asio::io_context io;
  const auto second = StoreServer::listen(io, table_, {.port = port_});
  ASSERT_TRUE(second.has_error());
  EXPECT_EQ(second.error().kind, ErrorKind::kAddressInUse);
  EXPECT_EQ(second.error().message,
            "store at 127.0.0.1 port " + std::to_string(port_) + ": address already in use");
}

TEST_F(StoreServerTest, AHostMustBeAnAddress) {
  asio::io_context io;
  const auto server = StoreServer::listen(io, table_, {.host = "localhost"});
  ASSERT_TRUE(server.has_error());
  EXPECT_EQ(server.error().kind, ErrorKind::kInvalidArgument);
}

}  // namespace
}  // namespace distrun
