#include "launcher/nodes/node_channel.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
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

#include "common/units.h"

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

TEST_F(NodeChannelTest, EnablesKeepaliveAndLimitsWhatTheKernelQueues) {
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
  EXPECT_EQ(option(IPPROTO_TCP, TCP_NOTSENT_LOWAT), 128 * 1024);
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

// This side sends two long texts, a message, and a message that waits for the texts.
TEST_F(NodeChannelTest, MessagesOvertakeTextsUnlessTheyWaitForThem) {
  const std::string text(5 * kMiB, 'x');
  const auto channel = NodeChannel::open(std::move(own_), "", {});
  channel->send_text(text);
  channel->send_text(text);
  EXPECT_LE(channel->unsent(), kNodeMessageBytesMax);
  channel->send_after_texts(NodeSucceeded{0});
  channel->send(AskTime{1});
  channel->close_last();
  std::string lines;
  std::array<char, 65536> buffer;
  std::function<void()> read = [&] {
    other_.async_read_some(asio::buffer(buffer), [&](auto error, std::size_t size) {
      lines.append(buffer.data(), size);
      if (!error) return read();
      other_.close();
    });
  };
  read();
  io_.run_for(std::chrono::seconds(10));
  const auto all = static_cast<std::size_t>(std::count(lines.begin(), lines.end(), '\n'));
  EXPECT_GT(all - 2, 2 * text.size() / kNodeMessageBytesMax);
  EXPECT_LT(lines.find(R"("type":"ask_time")"), 2 * kNodeMessageBytesMax);
  EXPECT_TRUE(lines.ends_with(to_line(NodeSucceeded{0})));
}

TEST_F(NodeChannelTest, EndsIfTooManyTextsWait) {
  std::string reason;
  const auto channel = NodeChannel::open(
      std::move(own_), "", {.on_end = [&](const Error& error) { reason = error.message; }});
  for (int i = 0; i < 5; ++i) channel->send_text(std::string(64 * kMiB, 'x'));
  EXPECT_EQ(reason, "") << "within a call of the channel";
  io_.run_for(std::chrono::seconds(10));
  EXPECT_EQ(reason, "it does not read its messages");
}

}  // namespace
}  // namespace distrun
