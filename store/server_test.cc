#include "store/server.h"

#include <chrono>
#include <functional>
#include <future>
#include <thread>

#include <boost/asio/post.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "common/unique_fd.h"
#include "store/testing.h"

namespace distrun {
namespace {

namespace asio = boost::asio;
using testing::bytes_of;
using testing::frame;
using testing::greeting;
using testing::text;

// A client with blocking calls, each bounded by ten seconds.
class Client {
 public:
  explicit Client(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval bound{.tv_sec = 10, .tv_usec = 0};
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &bound, sizeof(bound));
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &bound, sizeof(bound));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(
        ::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  }

  // False where the server has closed the connection.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  // `size` bytes, or fewer where the connection ends or ten seconds pass.
  std::string receive(std::size_t size) {
    std::string bytes(size, '\0');
    std::size_t got = 0;
    while (got < size) {
      const auto now = ::recv(socket_.get(), bytes.data() + got, size - got, 0);
      if (now <= 0) break;
      got += static_cast<std::size_t>(now);
    }
    bytes.resize(got);
    return bytes;
  }

  bool is_closed_by_peer() {
    char byte;
    const auto got = ::recv(socket_.get(), &byte, 1, 0);
    return got == 0 || (got < 0 && errno == ECONNRESET);
  }

  // True once the server has applied everything sent before.
  bool round_trip() {
    send(frame(RequestCode::kPing, bytes_of<std::uint32_t>(7)));
    return receive(4) == bytes_of<std::uint32_t>(7);
  }

 private:
  UniqueFd socket_;
};

class StoreServerTest : public ::testing::Test {
 protected:
  void SetUp() override { start({}); }
  void TearDown() override { stop(); }

  void start(const StoreServer::Options& options) {
    server_ = StoreServer::listen(io_, table_, options).value();
    port_ = server_->port();
    thread_ = std::thread([this] { io_.run(); });
  }

  void stop() {
    if (!thread_.joinable()) return;
    asio::post(io_, [this] { server_.reset(); });
    thread_.join();
    io_.restart();
  }

  // Whether `state`, looked at on the server's thread, becomes true within ten seconds.
  bool comes_to(const std::function<bool()>& state) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (std::chrono::steady_clock::now() < deadline) {
      std::promise<bool> seen;
      asio::post(io_, [&] { seen.set_value(state()); });
      if (seen.get_future().get()) return true;
    }
    return false;
  }

  Client greeted_client() {
    Client client(port_);
    client.send(greeting());
    return client;
  }

  asio::io_context io_;
  StoreTable table_;
  std::unique_ptr<StoreServer> server_;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

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
