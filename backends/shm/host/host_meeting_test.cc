#include "backends/shm/host/host_meeting.h"

#include <chrono>
#include <cstring>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/os/packet_socket.h"

namespace distrun::shm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kLongEnough(60);
const std::vector<int> kNames = {10, 11, 12, 13};

std::vector<HostMeeting> open_meetings(int ranks) {
  std::vector<HostMeeting> all;
  for (int rank = 0; rank < ranks; ++rank) all.push_back(HostMeeting::open(rank, ranks).value());
  return all;
}

std::vector<std::string> cards_of(const std::vector<HostMeeting>& meetings) {
  std::vector<std::string> all;
  all.reserve(meetings.size());
  for (const HostMeeting& each : meetings) all.push_back(each.card());
  return all;
}

UniqueFd file_of(int rank) {
  UniqueFd file(::memfd_create("test", MFD_CLOEXEC));
  const auto text = std::to_string(rank);
  EXPECT_EQ(::write(file.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  return file;
}

std::string text_in(const UniqueFd& file) {
  char byte = '?';
  return ::pread(file.get(), &byte, 1, 0) == 1 ? std::string(1, byte) : "";
}

// Connects to the socket of a card, as something else than a rank.
UniqueFd connect_as_stranger(const std::string& card) {
  std::istringstream in(card);
  std::string word, name;
  in >> word >> word >> name;
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  EXPECT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
  return socket;
}

TEST(HostMeetingTest, EachRankGetsTheFilesOfTheOthers) {
  constexpr int kRanks = 4;
  auto meetings = open_meetings(kRanks);
  const auto cards = cards_of(meetings);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      const UniqueFd mine = file_of(rank);
      auto peers = meetings[static_cast<std::size_t>(rank)].meet(cards, kNames, mine.get(),
                                                                 Clock::now() + kLongEnough);
      ASSERT_TRUE(peers) << peers.error().message;
      for (int peer = 0; peer < kRanks; ++peer) {
        const HostPeer& its = (*peers)[static_cast<std::size_t>(peer)];
        EXPECT_EQ(static_cast<bool>(its.memory), peer != rank);
        if (peer == rank) continue;
        EXPECT_EQ(text_in(its.memory), std::to_string(peer));
      }
    });
  }
  for (std::thread& each : threads) each.join();
}

TEST(HostMeetingTest, PresenceBecomesReadableWhenThePeerExits) {
  auto meetings = open_meetings(2);
  const auto cards = cards_of(meetings);
  const pid_t child = ::fork();
  if (child == 0) {
    const UniqueFd mine = file_of(1);
    const bool has_met =
        meetings[1].meet(cards, kNames, mine.get(), Clock::now() + kLongEnough).has_value();
    ::pause();
    ::_exit(has_met ? 0 : 1);
  }
  const UniqueFd mine = file_of(0);
  auto peers = meetings[0].meet(cards, kNames, mine.get(), Clock::now() + kLongEnough);
  ASSERT_TRUE(peers) << peers.error().message;
  pollfd presence{.fd = (*peers)[1].presence.get(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&presence, 1, 0), 0);
  ::kill(child, SIGKILL);
  EXPECT_EQ(::poll(&presence, 1, 60'000), 1);
  ::waitpid(child, nullptr, 0);
}

TEST(HostMeetingTest, StrangersAreIgnored) {
  auto meetings = open_meetings(2);
  const auto cards = cards_of(meetings);
  // They wait in the queue before the peer does.
  const UniqueFd liar = connect_as_stranger(cards[0]);
  ASSERT_TRUE(send_packet(liar.get(), "1 0123456789abcdef", {}));
  const UniqueFd silent = connect_as_stranger(cards[0]);
  const UniqueFd closed = connect_as_stranger(cards[0]);
  ::shutdown(closed.get(), SHUT_WR);
  std::thread peer([&] {
    const UniqueFd mine = file_of(1);
    EXPECT_TRUE(meetings[1].meet(cards, kNames, mine.get(), Clock::now() + kLongEnough));
  });
  const UniqueFd mine = file_of(0);
  auto peers = meetings[0].meet(cards, kNames, mine.get(), Clock::now() + kLongEnough);
  peer.join();
  ASSERT_TRUE(peers) << peers.error().message;
  EXPECT_EQ(text_in((*peers)[1].memory), "1");
}

TEST(HostMeetingTest, ATimeOutNamesTheRanksThatDidNotConnect) {
  auto meetings = open_meetings(4);
  const auto cards = cards_of(meetings);
  std::thread peer([&] {
    const UniqueFd mine = file_of(2);
    // It waits for rank 3, too.
    EXPECT_FALSE(
        meetings[2].meet(cards, kNames, mine.get(), Clock::now() + std::chrono::milliseconds(300)));
  });
  const UniqueFd mine = file_of(1);
  const auto peers =
      meetings[1].meet(cards, kNames, mine.get(), Clock::now() + std::chrono::milliseconds(300));
  peer.join();
  ASSERT_FALSE(peers);
  EXPECT_EQ(peers.error().kind, ErrorKind::kTimedOut);
  EXPECT_THAT(peers.error().message, HasSubstr("timed out: "));
  EXPECT_THAT(peers.error().message, HasSubstr("13"));
  EXPECT_THAT(peers.error().message, HasSubstr(" did not connect"));
}

TEST(HostMeetingTest, CardsOfOtherHostsAreFound) {
  const auto meetings = open_meetings(2);
  auto cards = cards_of(meetings);
  EXPECT_THAT(meetings[0].elsewhere(cards), IsEmpty());
  std::string other = cards[1];
  other.replace(other.find('/'), 1, "0/");
  EXPECT_THAT(meetings[0].elsewhere({cards[0], cards[1], other, "nonsense"}), ElementsAre(2, 3));
}

std::string meet_error(HostMeeting& meeting, const std::vector<std::string>& cards) {
  const UniqueFd mine = file_of(1);
  const auto peers = meeting.meet(cards, kNames, mine.get(), Clock::now() + kLongEnough);
  return peers ? "" : peers.error().message;
}

TEST(HostMeetingTest, CardsThatLeadNowhereAreErrorsThatNameTheRank) {
  auto meetings = open_meetings(2);
  const std::string mine = meetings[1].card();
  EXPECT_EQ(meet_error(meetings[1], {"nonsense", mine}), "rank 10: its card is malformed");
  EXPECT_THAT(meet_error(meetings[1], {"distrun-shm-1 host nowhere secret", mine}),
              HasSubstr("rank 10: connect to its socket"));
  EXPECT_EQ(
      meet_error(meetings[1], {"distrun-shm-1 host " + std::string(200, 'x') + " secret", mine}),
      "rank 10: the name of its socket is too long");
}

TEST(HostMeetingTest, APeerWithoutMemoryIsAnError) {
  auto meetings = open_meetings(2);
  const auto cards = cards_of(meetings);
  const UniqueFd peer = connect_as_stranger(cards[0]);
  std::istringstream in(cards[0]);
  std::string secret;
  while (in >> secret) continue;
  ASSERT_TRUE(send_packet(peer.get(), "1 " + secret, {}));
  EXPECT_EQ(meet_error(meetings[0], cards), "rank 11: it did not send its memory");
}

}  // namespace
}  // namespace distrun::shm
