#include "store/network/port_holder.h"

#include <array>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "distrun/store_server.h"

namespace distrun {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using ::testing::EndsWith;

tcp::endpoint at(const std::string& address, std::uint16_t port) {
  return {asio::ip::make_address(address), port};
}

class PortHolderTest : public ::testing::Test {
 protected:
  PortHolderTest() {
    ::prctl(PR_GET_NAME, name_before_.data());
    ::prctl(PR_SET_NAME, "a (name)");
  }
  ~PortHolderTest() override { ::prctl(PR_SET_NAME, name_before_.data()); }

  tcp::acceptor listening(const std::string& address) {
    tcp::acceptor acceptor(io_);
    acceptor.open(at(address, 0).protocol());
    if (address == "::") acceptor.set_option(asio::ip::v6_only(false));
    acceptor.bind(at(address, 0));
    acceptor.listen();
    return acceptor;
  }

  const std::string self_ = fmt::format("a (name) (pid {})", ::getpid());
  asio::io_context io_;

 private:
  std::array<char, 16> name_before_{};
};

// Each pair is the address of the listener and the address wanted.
TEST_F(PortHolderTest, NamesTheProcessThatListens) {
  for (const auto& [listens, wants] : {std::pair{"127.0.0.1", "127.0.0.1"},
                                       {"127.0.0.1", "0.0.0.0"},
                                       {"127.0.0.1", "::"},
                                       {"0.0.0.0", "127.0.0.1"},
                                       {"::", "127.0.0.1"},
                                       {"::", "::1"},
                                       {"::1", "::1"},
                                       {"::1", "::"},
                                       {"0.0.0.0", "::"}}) {
    const auto acceptor = listening(listens);
    const auto wanted = at(wants, acceptor.local_endpoint().port());
    EXPECT_EQ(port_holder(wanted), self_) << listens << " and " << wants;
    // The kernel agrees.
    const auto server = StoreServer::listen(io_, {.host = wants, .port = wanted.port()});
    ASSERT_TRUE(server.has_error()) << listens << " and " << wants;
    EXPECT_EQ(server.error().kind, ErrorKind::kAddressInUse);
    EXPECT_THAT(server.error().message, EndsWith(": address already in use by " + self_));
  }
}

TEST_F(PortHolderTest, IgnoresAListenerAtAnotherAddress) {
  const auto acceptor = listening("127.0.0.1");
  const auto port = acceptor.local_endpoint().port();
  EXPECT_EQ(port_holder(at("127.0.0.2", port)), "");
  EXPECT_EQ(port_holder(at("::1", port)), "");
}

TEST_F(PortHolderTest, ReportsNoHolderOfAFreePort) {
  std::uint16_t port = 0;
  { port = listening("127.0.0.1").local_endpoint().port(); }
  EXPECT_EQ(port_holder(at("127.0.0.1", port)), "");
}

// A port that an outgoing connection uses cannot be bound either.
TEST_F(PortHolderTest, NamesTheProcessOfAConnectionFromThePort) {
  auto acceptor = listening("127.0.0.1");
  tcp::socket client(io_);
  client.connect(acceptor.local_endpoint());
  EXPECT_EQ(port_holder(client.local_endpoint()), self_);
}

TEST_F(PortHolderTest, NamesOneOfSeveralProcessesThatShareASocket) {
  const auto acceptor = listening("127.0.0.1");
  const pid_t child = ::fork();
  if (child == 0) {
    for (;;) ::pause();
  }
  const std::string holder = port_holder(acceptor.local_endpoint());
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_THAT(holder, ::testing::AnyOf(self_, EndsWith(fmt::format("(pid {})", child))));
}

// An unprivileged process cannot see the descriptors of root's.
TEST_F(PortHolderTest, NamesTheUserIfTheProcessIsAnotherUsers) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  auto acceptor = listening("127.0.0.1");
  const auto wanted = acceptor.local_endpoint();
  const pid_t child = ::fork();
  if (child == 0) {
    acceptor.close();  // Only root's process may hold the socket.
    std::string holder = "no other user";
    if (::setgid(65534) == 0 && ::setuid(65534) == 0) holder = port_holder(wanted);
    const auto size = static_cast<ssize_t>(holder.size());
    ::_exit(::write(ends[1], holder.data(), holder.size()) == size ? 0 : 1);
  }
  ::close(ends[1]);
  std::array<char, 100> said{};
  [[maybe_unused]] const auto size = ::read(ends[0], said.data(), said.size() - 1);
  ::waitpid(child, nullptr, 0);
  ::close(ends[0]);
  EXPECT_STREQ(said.data(), "a process of uid 0");
}

}  // namespace
}  // namespace distrun
