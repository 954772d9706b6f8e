#include "evidence/connections/rank_sockets.h"

#include <array>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/os/unique_fd.h"

namespace distrun {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;

TEST(ConnectionLinesTest, IdleConnectionsHaveNoLine) {
  EXPECT_THAT(connection_lines({}), IsEmpty());
  EXPECT_THAT(connection_lines({{0, "a:1", "b:2"}, {1, "b:2", "a:1"}}), IsEmpty());
}

TEST(ConnectionLinesTest, PeersAreRanksOrAddresses) {
  EXPECT_THAT(connection_lines({{.rank = 0, .address = "a:1", .peer = "b:2", .undelivered = 7},
                                {.rank = 1, .address = "b:2", .peer = "a:1", .unread = 1},
                                {.rank = 1, .address = "b:3", .peer = "c:9", .undelivered = 5}}),
              ElementsAre("rank 1 has not read 1 byte from rank 0",
                          "rank 1 has not received 7 bytes from rank 0",
                          "c:9 has not received 5 bytes from rank 1"));
}

TEST(ConnectionLinesTest, ConnectionsOfTheSameRanksAreOneLine) {
  EXPECT_THAT(connection_lines({{.rank = 0, .address = "a:1", .peer = "b:2"},
                                {.rank = 0, .address = "a:3", .peer = "b:4"},
                                {.rank = 1, .address = "b:2", .peer = "a:1", .unread = 10},
                                {.rank = 1, .address = "b:4", .peer = "a:3", .unread = 20}}),
              ElementsAre("rank 1 has not read 30 bytes from rank 0"));
}

TEST(ConnectionLinesTest, OfOneRankStillNameItsPeers) {
  const std::vector<RankSocket> sockets = {
      {.rank = 0, .address = "a:1", .peer = "b:2", .undelivered = 7},
      {.rank = 1, .address = "b:2", .peer = "a:1", .unread = 1}};
  EXPECT_THAT(connection_lines(sockets, 1), ElementsAre("rank 1 has not read 1 byte from rank 0"));
  EXPECT_THAT(connection_lines(sockets, 0),
              ElementsAre("rank 1 has not received 7 bytes from rank 0"));
}

TEST(ConnectionLinesTest, AClosedEndIsNamed) {
  EXPECT_THAT(
      connection_lines(
          {{.rank = 2, .address = "a:1", .peer = "b:2", .unread = 4, .is_closed_by_peer = true}}),
      ElementsAre("rank 2 has not read 4 bytes from b:2",
                  "b:2 has closed its connection to rank 2"));
}

// Two ends of a connection over loopback, both of this process.
struct Pair {
  UniqueFd one, other;
};

Pair connected_pair() {
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  const auto any = reinterpret_cast<sockaddr*>(&address);  // NOLINT: the API's cast.
  EXPECT_EQ(::bind(listener.get(), any, size), 0);
  EXPECT_EQ(::listen(listener.get(), 1), 0);
  EXPECT_EQ(::getsockname(listener.get(), any, &size), 0);
  Pair pair{UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), UniqueFd()};
  EXPECT_EQ(::connect(pair.one.get(), any, size), 0);
  pair.other.reset(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  return pair;
}

void wait_readable(int fd) {
  pollfd readable{.fd = fd, .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&readable, 1, 10'000), 1);
}

TEST(RankSocketsTest, ReadsStuckBytesOfARealConnection) {
  const Pair pair = connected_pair();
  ASSERT_EQ(::send(pair.one.get(), "hello", 5, 0), 5);
  wait_readable(pair.other.get());
  // Both ends are of this process, which is rank 3.
  EXPECT_THAT(connection_lines(read_rank_sockets({{3, ::getpid()}})),
              IsSupersetOf({std::string("rank 3 has not read 5 bytes from rank 3")}));
}

TEST(RankSocketsTest, SeesAClosedEnd) {
  Pair pair = connected_pair();
  pair.other.reset();
  wait_readable(pair.one.get());
  bool is_closed = false;
  for (const RankSocket& socket : read_rank_sockets({{3, ::getpid()}})) {
    is_closed |= socket.is_closed_by_peer;
    EXPECT_EQ(socket.unread, 0U);
  }
  EXPECT_TRUE(is_closed);
}

TEST(RankSocketsTest, AnEndedProcessHasNone) {
  EXPECT_THAT(read_rank_sockets({{0, -1}}), IsEmpty());
}

}  // namespace
}  // namespace distrun
