#include "launcher/run/nccl_ras.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/os/die_with_parent.h"

namespace distrun {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

// As RAS opens it, so that several processes may share `port`; 0: any.
UniqueFd listen_at(const std::string& address, std::uint16_t port = 0) {
  UniqueFd fd;
  const int on = 1;
  const bool is_v6 = address.find(':') != std::string::npos;
  fd.reset(::socket(is_v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
  sockaddr_in v4{.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {}, .sin_zero = {}};
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  ::inet_pton(AF_INET, address.c_str(), &v4.sin_addr);
  ::inet_pton(AF_INET6, address.c_str(), &v6.sin6_addr);
  const auto* any =
      is_v6 ? reinterpret_cast<const sockaddr*>(&v6) : reinterpret_cast<sockaddr*>(&v4);
  if (::bind(fd.get(), any, is_v6 ? sizeof(v6) : sizeof(v4)) != 0 || ::listen(fd.get(), 16) != 0) {
    fd.reset();
  }
  return fd;
}

std::uint16_t own_port(const UniqueFd& fd) {
  sockaddr_in6 address{};
  socklen_t size = sizeof(address);
  ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin6_port);  // At the same place as that of IPv4.
}

// A process that runs `opens` and then only waits. It ends with this one.
template <class Opens>
class OtherProcess {
 public:
  explicit OtherProcess(const Opens& opens) {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    const UniqueFd in(ends[0]);
    UniqueFd out(ends[1]);
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ == 0) {
      if (!die_with_parent(parent)) ::_exit(1);
      const UniqueFd fd = opens();
      const char byte = fd ? '1' : '0';
      if (::write(out.get(), &byte, 1) == 1) ::pause();
      ::_exit(0);
    }
    out.reset();  // If the process ends, so does the reading.
    char byte = 0;
    EXPECT_EQ(::read(in.get(), &byte, 1), 1);
    is_open_ = byte == '1';
  }
  ~OtherProcess() { end(); }
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;

  void end() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  pid_t pid() const { return pid_; }
  bool is_open() const { return is_open_; }

 private:
  pid_t pid_ = -1;
  bool is_open_ = false;
};

class NcclRasTest : public ::testing::Test {
 protected:
  void listen(const std::string& address = "127.0.0.1") {
    server_ = listen_at(address);
    ASSERT_TRUE(server_);
    port_ = own_port(server_);
  }

  // Longer than kLimit: then the test and not the patience ends a wait.
  void ask(std::chrono::milliseconds patience = 24h) { ask_process(::getpid(), patience); }

  void ask_process(pid_t pid, std::chrono::milliseconds patience = 24h) {
    ras_.ask({{.rank = Rank(1), .pids = {pid}}}, patience);
  }

  void wait_for_end() {
    const auto limit = std::chrono::steady_clock::now() + kLimit;
    while (ras_.is_waiting()) {
      ASSERT_LT(std::chrono::steady_clock::now(), limit) << "the question does not end";
    }
  }

  bool accept() {
    UniqueFd client(::accept4(server_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!client) return false;
    clients_.push_back(std::move(client));
    return true;
  }

  // Everything that the first client has sent.
  std::string received(std::size_t client = 0) const {
    char bytes[256];
    const auto size = ::recv(clients_.at(client).get(), bytes, sizeof(bytes), 0);
    return {bytes, static_cast<std::size_t>(std::max<ssize_t>(size, 0))};
  }

  void send(std::string_view text, std::size_t client = 0) {
    ::send(clients_.at(client).get(), text.data(), text.size(), MSG_NOSIGNAL);
  }

  static std::string report() {
    return fmt::format(
        "SERVER PROTOCOL 2\nOK\n\nErrors\n======\n\n"
        "#0-0 (cf264af53edbe986) ERROR\n"
        "  Asynchronous error on 1 rank\n"
        "  Rank 0 reported System error -- GPU 0 managed by process {} on node 10.0.0.1\n\n"
        "Warnings\n========\n\n",
        ::getpid());
  }

  static constexpr std::chrono::seconds kLimit{60};

  LaunchPlan plan_ = make_plan({.nproc_per_node = 4}, {"/bin/true", {"true"}}, {}).value();
  NcclRas ras_{plan_, [this](pid_t pid) {
                 read_.push_back(pid);
                 return std::optional(port_);
               }};
  std::vector<pid_t> read_;  // The processes whose variables were read.
  UniqueFd server_;
  std::uint16_t port_ = 0;
  std::vector<UniqueFd> clients_;
};

constexpr const char* kFound =
    "communicator (cf264af53edbe986): asynchronous error on 1 rank: rank 1 reported System error";

TEST_F(NcclRasTest, NamesTheRankOfTheRun) {
  listen();
  ask();
  ASSERT_TRUE(accept());
  EXPECT_EQ(received(), "CLIENT PROTOCOL 2\nTIMEOUT 1\nVERBOSE STATUS\n");
  EXPECT_TRUE(ras_.is_waiting());
  send(report());
  EXPECT_TRUE(ras_.is_waiting()) << "the connection is open";
  clients_.clear();
  wait_for_end();
  EXPECT_EQ(ras_.line(), kFound);
  EXPECT_FALSE(ras_.is_waiting());
  EXPECT_EQ(ras_.line(), "") << "the question has ended";
}

TEST_F(NcclRasTest, WithSeveralNodesAPidIsNotARank) {
  plan_.options.nnodes = 2;
  listen();
  ask();
  ASSERT_TRUE(accept());
  send(report());
  EXPECT_THAT(
      ras_.line(),
      HasSubstr(fmt::format("rank 0 of the communicator (process {} on 10.0.0.1) reported System",
                            ::getpid())));
}

TEST_F(NcclRasTest, FindsTheListenerAtEachAddress) {
  for (const char* address : {"127.0.0.1", "127.3.2.1", "0.0.0.0", "::1", "::"}) {
    server_ = listen_at(address);
    if (!server_) continue;  // A machine may have no IPv6.
    port_ = own_port(server_);
    ask();
    ASSERT_TRUE(accept()) << address;
    send(report());
    clients_.clear();
    wait_for_end();
    EXPECT_EQ(ras_.line(), kFound) << address;
  }
}

TEST_F(NcclRasTest, AStrangerIsNotAsked) {
  listen();
  OtherProcess stranger([this] {
    server_.reset();
    return UniqueFd(::dup(0));
  });
  ask_process(stranger.pid());
  EXPECT_FALSE(ras_.is_waiting());
  EXPECT_FALSE(accept());
  ask();
  EXPECT_TRUE(accept()) << "the listener can be asked";
}

// Also if the kernel could choose the stranger.
TEST_F(NcclRasTest, APortThatAStrangerSharesIsNotAsked) {
  using Two = std::pair<const char*, const char*>;
  for (const auto& [own, other] :
       {Two("127.0.0.1", "127.0.0.1"), Two("127.0.0.1", "0.0.0.0"), Two("0.0.0.0", "127.0.0.1")}) {
    listen(own);
    OtherProcess stranger([this, other = other] { return listen_at(other, port_); });
    ASSERT_TRUE(stranger.is_open());
    ask();
    EXPECT_FALSE(ras_.is_waiting()) << own << " and " << other;
    EXPECT_FALSE(accept());
    stranger.end();
    ask();
    EXPECT_TRUE(accept()) << "no stranger is left";
  }
}

TEST_F(NcclRasTest, AStrangerAtAnotherAddressDoesNotMatter) {
  listen();
  const OtherProcess stranger([this] { return listen_at("127.3.2.1", port_); });
  ASSERT_TRUE(stranger.is_open());
  ask();
  EXPECT_TRUE(accept());
}

TEST_F(NcclRasTest, AListenerAtAnotherPortIsNotAsked) {
  listen();
  UniqueFd other = listen_at("127.0.0.1");
  port_ = own_port(other);
  const OtherProcess stranger([&other] { return std::move(other); });
  other.reset();
  ask();
  EXPECT_FALSE(ras_.is_waiting());
  EXPECT_FALSE(accept());
}

TEST_F(NcclRasTest, ASilentServerIsWaitedForUntilTheTimeout) {
  listen();
  ask(20ms);
  ASSERT_TRUE(accept());
  EXPECT_TRUE(ras_.is_waiting());
  wait_for_end();
  EXPECT_EQ(ras_.line(), "");
  EXPECT_THAT(received(), HasSubstr("STATUS\n"));
  char byte = 0;
  EXPECT_EQ(::recv(clients_[0].get(), &byte, 1, 0), 0) << "the connection is closed";
}

TEST_F(NcclRasTest, AProcessThatIsStoppedIsNotAskedAgain) {
  listen();
  ask();
  ASSERT_TRUE(accept());
  const auto limit = std::chrono::steady_clock::now() + kLimit;
  while (!accept()) {
    ASSERT_TRUE(ras_.is_waiting());
    ASSERT_LT(std::chrono::steady_clock::now(), limit) << "no other connection is opened";
  }
  EXPECT_EQ(received(1), "CLIENT PROTOCOL 2\nTIMEOUT 1\nVERBOSE STATUS\n");
  send(report(), 1);
  clients_.pop_back();
  wait_for_end();
  EXPECT_EQ(ras_.line(), kFound);
}

TEST_F(NcclRasTest, AnUnfinishedReportIsShown) {
  listen();
  ask(20ms);
  ASSERT_TRUE(accept());
  send("SERVER PROTOCOL 2\nOK\n\nCommunicators...");
  wait_for_end();
  EXPECT_EQ(ras_.line(),
            "RAS had not finished its report when distrun stopped waiting, perhaps because a "
            "process does not answer");
}

TEST_F(NcclRasTest, AReportWithoutEndIsShown) {
  listen();
  ask();
  ASSERT_TRUE(accept());
  send("SERVER PROTOCOL 2\nOK\n\nCommunicators...");
  clients_.clear();
  wait_for_end();
  EXPECT_EQ(ras_.line(), "RAS has ended its report early");
}

TEST_F(NcclRasTest, AnotherProtocolEndsTheQuestionAtOnce) {
  listen();
  ask();
  ASSERT_TRUE(accept());
  send("HTTP/1.1 400 Bad Request\r\n");
  wait_for_end();
  EXPECT_EQ(ras_.line(), "");
}

TEST_F(NcclRasTest, AnEndlessAnswerIsCut) {
  listen();
  ask();
  ASSERT_TRUE(accept());
  send("SERVER PROTOCOL 2\nOK\n\nErrors\n======\n\n");
  for (int i = 0; ras_.is_waiting(); ++i) {
    ASSERT_LT(i, 10000) << "nothing cuts the answer";
    send(std::string(10000, 'x') + "\n");
  }
  const std::string line = ras_.line();
  EXPECT_THAT(line, ::testing::StartsWith("xxxx"));
  EXPECT_THAT(
      line, ::testing::EndsWith("; the report of RAS is too long: distrun has read its beginning"));
  EXPECT_LT(line.size(), 5000U);
}

TEST_F(NcclRasTest, AListenerThatClosesEndsTheQuestion) {
  listen();
  ask();
  server_.reset();
  wait_for_end();
  EXPECT_EQ(ras_.line(), "");
}

TEST_F(NcclRasTest, WithoutAListenerNothingIsAsked) {
  listen();
  server_.reset();
  ask();
  EXPECT_FALSE(ras_.is_waiting());
  EXPECT_EQ(ras_.line(), "");
  EXPECT_EQ(ras_.port(), std::nullopt);
}

TEST_F(NcclRasTest, TellsThePortAlsoAfterTheAnswer) {
  listen();
  ask();
  EXPECT_EQ(ras_.line(), "");
  EXPECT_EQ(ras_.port(), port_);
  server_.reset();
  ask();
  EXPECT_EQ(ras_.port(), port_) << "the connection of before may still be open";
}

// Reading them may block.
TEST_F(NcclRasTest, OnlyVariablesOfProcessesThatListenAreRead) {
  listen();
  const OtherProcess other([this] {
    server_.reset();
    return UniqueFd(::dup(0));
  });
  ras_.ask({{.rank = Rank(0), .pids = {other.pid(), ::getpid()}}}, 24h);
  EXPECT_TRUE(accept());
  EXPECT_THAT(read_, ::testing::ElementsAre(::getpid()));
}

TEST_F(NcclRasTest, WithoutVariablesRasHasNoPort) { EXPECT_EQ(ras_port_of(-1), std::nullopt); }

}  // namespace
}  // namespace distrun
