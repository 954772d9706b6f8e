#include "testsuites/harness/protocol/host_messages.h"

#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distrun {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

TEST(HostMessagesTest, PreservesRequests) {
  const ForkRank fork{.key = 1ULL << 60,
                      .test = "gloo.A.b",
                      .mark = "mark",
                      .variables = {{"RANK", "3"}, {"ODD\xff", "\xfe"}},
                      .folder = "/tmp/\xff",
                      .fresh = true,
                      .under = {"gdb", "--args"}};
  const auto parsed = parse_to_host(to_packet(fork), 4).value();
  EXPECT_EQ(parsed.key, fork.key);
  EXPECT_EQ(parsed.test, fork.test);
  EXPECT_THAT(parsed.variables, ElementsAre(Pair("ODD\xff", "\xfe"), Pair("RANK", "3")));
  EXPECT_EQ(parsed.mark, "mark");
  EXPECT_EQ(parsed.folder, fork.folder);
  EXPECT_TRUE(parsed.fresh);
  EXPECT_THAT(parsed.under, ElementsAre("gdb", "--args"));
}

TEST(HostMessagesTest, PreservesAnswers) {
  const WallTime at(std::chrono::microseconds(5));
  const auto forked = parse_from_host(to_packet(FromHost(RankForked{7, 4711, at})), 1).value();
  EXPECT_EQ(std::get<RankForked>(forked).key, 7u);
  EXPECT_EQ(std::get<RankForked>(forked).pid, 4711);
  EXPECT_EQ(std::get<RankForked>(forked).at, at);
  const auto not_forked = parse_from_host(to_packet(FromHost(RankNotForked{8, "why"})), 0).value();
  EXPECT_EQ(std::get<RankNotForked>(not_forked).problem, "why");
  for (const ProcessEnd end : {ProcessEnd(KilledBy{SIGSEGV}), ProcessEnd(ExitedWith{3})}) {
    const auto ended = parse_from_host(to_packet(FromHost(RankEnded{9, end})), 0).value();
    EXPECT_EQ(std::get<RankEnded>(ended).key, 9u);
    EXPECT_EQ(std::get<RankEnded>(ended).end, end);
  }
  EXPECT_TRUE(std::holds_alternative<HostReady>(
      parse_from_host(to_packet(FromHost(HostReady{})), 1).value()));
}

TEST(HostMessagesTest, RejectsMalformedPackets) {
  for (const std::string& packet : {std::string(), std::string("hello"), std::string(1000, '\0'),
                                    to_packet(FromHost(HostReady{})).substr(0, 5)}) {
    EXPECT_FALSE(parse_from_host(packet, 0)) << packet;
    EXPECT_FALSE(parse_to_host(packet, 4)) << packet;
  }
  EXPECT_FALSE(parse_to_host(to_packet(FromHost(HostReady{})), 4));
  std::string unknown = to_packet(FromHost(RankForked{7, 4711}));
  unknown.replace(unknown.find("forked"), 6, "joined");
  EXPECT_FALSE(parse_from_host(unknown, 0));
  EXPECT_FALSE(parse_from_host(unknown, 1));
}

TEST(HostMessagesTest, RejectsMessagesWithoutTheirDescriptors) {
  EXPECT_FALSE(parse_from_host(to_packet(FromHost(RankForked{7, 4711})), 0));
  EXPECT_FALSE(parse_to_host(to_packet(ForkRank{.test = "a.b.c"}), 3));
}

}  // namespace
}  // namespace distrun
