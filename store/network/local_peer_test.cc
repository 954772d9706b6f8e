#include "store/network/local_peer.h"

#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>
#include <unistd.h>

#include "store/network/local_process.h"

namespace distrun {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

// Both ends of a connection on loopback.
struct Pair {
  explicit Pair(const std::string& listens, const std::string& connects_to)
      : acceptor(io, {asio::ip::make_address(listens), 0}) {
    client.connect({asio::ip::make_address(connects_to), acceptor.local_endpoint().port()});
    acceptor.accept(server);
  }
  asio::io_context io;
  tcp::acceptor acceptor;
  tcp::socket client{io}, server{io};
};

TEST(LocalPeerTest, FindsTheUserAndTheProcessOfAClient) {
  for (const auto& [listens, connects_to] :
       {std::pair{"127.0.0.1", "127.0.0.1"}, {"::1", "::1"}, {"::", "127.0.0.1"}}) {
    SCOPED_TRACE(listens);
    Pair pair(listens, connects_to);
    const auto socket = LocalSockets::open()
                            .value()
                            .find(pair.server.remote_endpoint(), pair.server.local_endpoint())
                            .value();
    ASSERT_TRUE(socket.has_value());
    EXPECT_EQ(socket->uid, ::geteuid());
    const auto processes = processes_of_sockets({socket->inode});
    ASSERT_TRUE(processes.contains(socket->inode));
    EXPECT_EQ(processes.at(socket->inode).pid, ::getpid());
  }
}

TEST(LocalPeerTest, FindsNoSocketThatIsClosedOrListens) {
  Pair pair("127.0.0.1", "127.0.0.1");
  const auto client = pair.server.remote_endpoint(), server = pair.server.local_endpoint();
  auto sockets = LocalSockets::open().value();
  // A listening socket is not a connected one.
  EXPECT_FALSE(sockets.find(server, {asio::ip::make_address("127.0.0.2"), 1}).value());
  EXPECT_FALSE(sockets.find({asio::ip::make_address("192.0.2.1"), 5}, server).value());
  pair.client.close();
  EXPECT_FALSE(sockets.find(client, server).value()) << "no process holds it";
}

}  // namespace
}  // namespace distrun
