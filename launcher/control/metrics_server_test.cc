#include "launcher/control/metrics_server.h"

#include <thread>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distrun {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// The server runs in its own thread.
class MetricsServerTest : public ::testing::Test {
 protected:
  MetricsServerTest() {
    auto opened = MetricsServer::open(io_, "127.0.0.1", 0, [] { return "up 1\n"; });
    EXPECT_TRUE(opened);
    server_ = std::move(*opened);
    const std::string url = server_->url();
    const auto colon = url.rfind(':');
    port_ = static_cast<std::uint16_t>(std::stoi(url.substr(colon + 1)));
    EXPECT_EQ(url, "http://127.0.0.1:" + std::to_string(port_) + "/metrics");
    thread_ = std::thread([this] { io_.run(); });
  }
  ~MetricsServerTest() override {
    asio::post(io_, [this] { server_.reset(); });
    thread_.join();
  }

  tcp::socket connect() {
    tcp::socket socket(client_);
    socket.connect({asio::ip::make_address("127.0.0.1"), port_});
    return socket;
  }

  static std::string rest_of(tcp::socket& socket) {
    std::string text;
    boost::system::error_code end;
    asio::read(socket, asio::dynamic_buffer(text), end);
    return text;
  }

  std::string answer_to(std::string_view request) {
    auto socket = connect();
    boost::system::error_code ignored;
    asio::write(socket, asio::buffer(request), ignored);
    return rest_of(socket);
  }

  asio::io_context io_, client_;
  std::unique_ptr<MetricsServer> server_;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

TEST_F(MetricsServerTest, AnswersWithTheText) {
  EXPECT_EQ(answer_to("GET /metrics HTTP/1.1\r\nHost: a\r\nUser-Agent: Prometheus\r\n\r\n"),
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
            "Content-Length: 5\r\nConnection: close\r\n\r\nup 1\n");
  EXPECT_THAT(answer_to("GET /metrics?a=b HTTP/1.0\r\n\r\n"), StartsWith("HTTP/1.1 200 "));
}

TEST_F(MetricsServerTest, ARequestMayComeInPieces) {
  auto socket = connect();
  socket.set_option(tcp::no_delay(true));
  for (const char byte : std::string("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")) {
    asio::write(socket, asio::buffer(&byte, 1));
  }
  EXPECT_THAT(rest_of(socket), StartsWith("HTTP/1.1 200 "));
}

TEST_F(MetricsServerTest, OtherPathsAndMethodsAreRefused) {
  EXPECT_THAT(answer_to("GET / HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(answer_to("GET /metricsx HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 404 "));
  const std::string refused = answer_to("DELETE /metrics HTTP/1.1\r\n\r\n");
  EXPECT_THAT(refused, StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(refused, HasSubstr("\r\nAllow: GET\r\n"));
}

TEST_F(MetricsServerTest, MalformedRequestsAreRefused) {
  for (const char* request :
       {"hello\r\n\r\n", "GET /metrics\r\n\r\n", "GET /metrics HTTP/9.9\r\n\r\n",
        "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        "GET /metrics HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        "POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"}) {
    EXPECT_THAT(answer_to(request), StartsWith("HTTP/1.1 400 ")) << request;
  }
}

TEST_F(MetricsServerTest, ALongHeaderIsRefused) {
  const std::string many = "GET /metrics HTTP/1.1\r\nA: " + std::string(1 << 20, 'x');
  EXPECT_THAT(answer_to(many), StartsWith("HTTP/1.1 400 "));
}

TEST_F(MetricsServerTest, ManyIdleConnectionsAreClosedAndDoNotStay) {
  {
    std::vector<tcp::socket> idle;
    for (int i = 0; i < 16; ++i) idle.push_back(connect());
    // The first 16 wait for a request; this one is closed at once.
    auto refused = connect();
    EXPECT_EQ(rest_of(refused), "");
  }
  // The server may see the end of the others after the next connection.
  std::string answer;
  for (int i = 0; i < 1000 && answer.empty(); ++i) {
    answer = answer_to("GET /metrics HTTP/1.1\r\n\r\n");
  }
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 "));
}

TEST_F(MetricsServerTest, ABusyPortIsAnError) {
  const auto second = MetricsServer::open(client_, "127.0.0.1", port_, [] { return ""; });
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().kind, ErrorKind::kAddressInUse);
}

TEST(MetricsServerEndTest, ClosesOpenConnections) {
  asio::io_context io;
  auto server = MetricsServer::open(io, "127.0.0.1", 0, [] { return ""; }).value();
  const std::string url = server->url();
  tcp::socket socket(io);
  socket.connect({asio::ip::make_address("127.0.0.1"),
                  static_cast<std::uint16_t>(std::stoi(url.substr(url.rfind(':') + 1)))});
  io.poll();
  server.reset();
  io.run();  // Ends: nothing waits any more.
}

}  // namespace
}  // namespace distrun
