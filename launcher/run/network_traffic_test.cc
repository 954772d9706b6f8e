#include "launcher/run/network_traffic.h"

#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <gtest/gtest.h>
#include <unistd.h>

namespace distrun {
namespace {

using boost::asio::ip::tcp;

// Two connected sockets of this process.
class NetworkTrafficTest : public ::testing::Test {
 protected:
  NetworkTrafficTest() {
    tcp::acceptor acceptor(io_, tcp::endpoint(boost::asio::ip::address_v4::loopback(), 0));
    port_ = acceptor.local_endpoint().port();
    client_.connect(acceptor.local_endpoint());
    acceptor.accept(server_);
  }

  void exchange(std::size_t size) {
    const std::string sent(size, 'x');
    boost::asio::write(client_, boost::asio::buffer(sent));
    std::string got(size, '\0');
    boost::asio::read(server_, boost::asio::buffer(got));
  }

  boost::asio::io_context io_;
  tcp::socket client_{io_}, server_{io_};
  std::uint16_t port_ = 0;
  const std::vector<pid_t> self_ = {::getpid()};
};

TEST_F(NetworkTrafficTest, CountsWhatAProcessSendsAndReceives) {
  auto traffic = NetworkTraffic::open();
  ASSERT_TRUE(traffic) << traffic.error().message;
  const auto before = traffic->bytes(self_, 1);
  exchange(1000);
  EXPECT_GE(traffic->bytes(self_, 1), before + 1000);
}

TEST_F(NetworkTrafficTest, OmitsTheStoresPort) {
  auto traffic = NetworkTraffic::open();
  ASSERT_TRUE(traffic);
  const auto before = traffic->bytes(self_, port_);
  exchange(1000);
  EXPECT_EQ(traffic->bytes(self_, port_), before);
}

TEST_F(NetworkTrafficTest, OmitsOtherProcesses) {
  auto traffic = NetworkTraffic::open();
  ASSERT_TRUE(traffic);
  exchange(1000);
  EXPECT_EQ(traffic->bytes({}, 1), 0U);
}

}  // namespace
}  // namespace distrun
