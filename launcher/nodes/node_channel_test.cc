#include "launcher/nodes/node_channel.h"

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace distrun {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

class NodeChannelTest : public ::testing::Test {
 protected:
  NodeChannelTest() {
    tcp::acceptor acceptor(io_, {asio::ip::address_v4::loopback(), 0});
    other_.connect(acceptor.local_endpoint());
    own_ = acceptor.accept();
  }

  asio::io_context io_;
  tcp::socket own_{io_}, other_{io_};
};

TEST_F(NodeChannelTest, EnablesKeepalive) {
  const int fd = own_.native_handle();
  const auto channel = NodeChannel::open(std::move(own_), "", {});
  const auto option = [&](int level, int name) {
    int value = -1;
    socklen_t size = sizeof(value);
    return ::getsockopt(fd, level, name, &value, &size) == 0 ? value : -1;
  };
  EXPECT_EQ(option(SOL_SOCKET, SO_KEEPALIVE), 1);
  EXPECT_LE(option(IPPROTO_TCP, TCP_KEEPIDLE) +
                option(IPPROTO_TCP, TCP_KEEPINTVL) * option(IPPROTO_TCP, TCP_KEEPCNT),
            15);
  EXPECT_EQ(option(IPPROTO_TCP, TCP_USER_TIMEOUT), 15'000);
  channel->close();
}

TEST_F(NodeChannelTest, DoesNotLingerIfTheOtherSideEndsDuringTheLastWrite) {
  std::shared_ptr<NodeChannel> channel;
  channel = NodeChannel::open(std::move(own_), "", {.on_message = [&](const NodeMessage&) {
                                channel->send(TellTime{1, {}});
                                channel->send(TellTime{2, {}});  // A second write, after the end.
                                channel->close_last();
                              }});
  asio::write(other_, asio::buffer(to_line(AskTime{1})));
  other_.shutdown(tcp::socket::shutdown_send);
  io_.run_for(std::chrono::seconds(3));
  EXPECT_TRUE(io_.stopped());
}

}  // namespace
}  // namespace distrun
