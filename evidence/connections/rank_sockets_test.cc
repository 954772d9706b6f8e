#include "evidence/connections/rank_sockets.h"

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

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using Words = std::vector<std::string>;

Words texts_of(const std::vector<RankSocket>& sockets) {
  Words texts;
  for (const ConnectionLine& line : connection_lines(sockets)) texts.push_back(line.text);
  return texts;
}

TEST(ConnectionLinesTest, IdleConnectionsHaveNoLine) {
  EXPECT_THAT(texts_of({}), IsEmpty());
  EXPECT_THAT(texts_of({{0, "a:1", "b:2"}, {1, "b:2", "a:1"}}), IsEmpty());
}

TEST(ConnectionLinesTest, PeersAreRanksOrAddresses) {
  EXPECT_THAT(texts_of({{.rank = 0, .address = "a:1", .peer = "b:2", .undelivered = 7},
                        {.rank = 1, .address = "b:2", .peer = "a:1", .unread = 1},
                        {.rank = 1, .address = "b:3", .peer = "c:9", .undelivered = 5}}),
              ElementsAre("rank 1 has not received 7 bytes from rank 0",
                          "rank 1 has not read 1 byte from rank 0",
                          "c:9 has not received 5 bytes from rank 1"));
}

TEST(ConnectionLinesTest, ConnectionsOfTheSameRanksAreOneLine) {
  EXPECT_THAT(texts_of({{.rank = 0, .address = "a:1", .peer = "b:2"},
                        {.rank = 0, .address = "a:3", .peer = "b:4"},
                        {.rank = 1, .address = "b:2", .peer = "a:1", .unread = 10},
                        {.rank = 1, .address = "b:4", .peer = "a:3", .unread = 20}}),
              ElementsAre("rank 1 has not read 30 bytes from rank 0"));
}

TEST(ConnectionLinesTest, RanksAreInTheOrderOfTheirNumbers) {
  std::vector<RankSocket> sockets;
  for (const int peer : {10, 2}) {
    const std::string end = "p:" + std::to_string(peer);
    sockets.push_back({.rank = 0, .address = "a:1", .peer = end, .unread = 1});
    sockets.push_back({.rank = peer, .address = end, .peer = "a:1"});
  }
  EXPECT_THAT(texts_of(sockets), ElementsAre("rank 0 has not read 1 byte from rank 2",
                                             "rank 0 has not read 1 byte from rank 10"));
}

TEST(ConnectionLinesTest, AClosedEndIsNamed) {
  EXPECT_THAT(
      texts_of(
          {{.rank = 2, .address = "a:1", .peer = "b:2", .unread = 4, .is_closed_by_peer = true}}),
      ElementsAre("rank 2 has not read 4 bytes from b:2",
                  "b:2 has closed its connection to rank 2"));
}

TEST(ConnectionsTextTest, IsOfAllRanksOrOfOne) {
  const std::vector<ConnectionLine> lines = {{0, "a"}, {1, "b"}};
  EXPECT_EQ(connections_text(lines, "  "), "  connections\n    a\n    b\n");
  EXPECT_EQ(connections_text(lines, "", 1), "connections\n  b\n");
  EXPECT_EQ(connections_text(lines, "", 2), "");
}

TEST(ConnectionsTextTest, CountsWhatItLeavesOut) {
  const std::vector<ConnectionLine> lines(20, {0, "a"});
  const std::string text = connections_text(lines, "");
  EXPECT_TRUE(text.ends_with("  a\n  4 more\n")) << text;
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
  EXPECT_THAT(texts_of(read_rank_sockets({{3, ::getpid()}})),
              Contains("rank 3 has not read 5 bytes from rank 3"));
}

TEST(RankSocketsTest, SeesBytesThatThePeerHasNoRoomFor) {
  const Pair pair = connected_pair();
  const std::string piece(1 << 20, 'x');
  while (::send(pair.one.get(), piece.data(), piece.size(), MSG_DONTWAIT) > 0) continue;
  EXPECT_THAT(texts_of(read_rank_sockets({{3, ::getpid()}})),
              Contains(MatchesRegex("rank 3 has not received [0-9]+ bytes from rank 3")));
}

// The end of the peer's data is not an unread byte.
TEST(RankSocketsTest, SeesAClosedEnd) {
  Pair pair = connected_pair();
  pair.other.reset();
  wait_readable(pair.one.get());
  EXPECT_THAT(texts_of(read_rank_sockets({{3, ::getpid()}})),
              ElementsAre(MatchesRegex("127.0.0.1:[0-9]+ has closed its connection to rank 3")));
}

TEST(RankSocketsTest, AHalfClosedEndStillHasItsRank) {
  const Pair pair = connected_pair();
  ::shutdown(pair.other.get(), SHUT_WR);
  wait_readable(pair.one.get());
  EXPECT_THAT(texts_of(read_rank_sockets({{3, ::getpid()}})),
              ElementsAre("rank 3 has closed its connection to rank 3"));
}

TEST(RankSocketsTest, ConnectionsToOnePortOfARankAreLeftOut) {
  Pair pair = connected_pair();
  sockaddr_in address{};
  socklen_t size = sizeof(address);
  ASSERT_EQ(::getsockname(pair.other.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  ASSERT_EQ(::send(pair.one.get(), "hello", 5, 0), 5);
  wait_readable(pair.other.get());
  pair.one.reset();
  EXPECT_THAT(texts_of(read_rank_sockets({{3, ::getpid()}})), ::testing::Not(IsEmpty()));
  EXPECT_THAT(texts_of(read_rank_sockets({{3, ::getpid()}}, ntohs(address.sin_port))), IsEmpty());
}

TEST(RankSocketsTest, AnEndedProcessHasNone) {
  EXPECT_THAT(read_rank_sockets({{0, -1}}), IsEmpty());
}

}  // namespace
}  // namespace distrun
