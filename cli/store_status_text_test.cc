#include "cli/store_status_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/protocol/store_wait_text.h"

namespace distrun {
namespace {

using ::testing::HasSubstr;

TEST(StoreStatusTextTest, ShowsConnectedWaitingAndMissingRanks) {
  StoreStatus status{.address = "127.0.0.1:29500", .up_s = 61, .keys = 12, .bytes = 3174};
  status.connections = 6;
  status.waiting = 3;
  status.refused = 40;
  status.peers = {{"127.0.0.1:1", "", 60, 30.94, "barrier", StoreWait{{"/epoch/1"}, 1, 2, 4}},
                  {"127.0.0.1:2", "", 60, 31.2, "wait", StoreWait{{"/ready/3"}, 1, 0, 0}},
                  {"10.0.0.7:3", "", 60, 1, "wait", StoreWait{{"/a", "b\x01"}, 5, 0, 0}},
                  {"127.0.0.1:4", "", 60, 32, "set", std::nullopt},
                  {"127.0.0.1:5", "", 60, 2, "", std::nullopt}};
  status.gave_up = {{"127.0.0.1:2", 1.5, 30, StoreWait{{"/x"}, 1, 0, 0}}};
  status.closed = {{"127.0.0.1:6", 3, "no request has the code 71"}};
  const PeerProcesses processes = {{"127.0.0.1:1", {4713, 2, 5}},
                                   {"127.0.0.1:2", {4711, 0, 5}},
                                   {"127.0.0.1:4", {4714, 3, 5}},
                                   {"127.0.0.1:5", {99, std::nullopt, std::nullopt}}};
  EXPECT_EQ(text_of(status, processes),
            R"(store at 127.0.0.1:29500: 6 connections, 12 keys, 3.1 KiB, up 61.0 s
waiting:
  rank 0 (pid 4711)               31.2 s for ready/3
  rank 2 (pid 4713)               30.9 s in the barrier epoch/1: 2 of 4 clients arrived
  10.0.0.7:3                       1.0 s for a, b\x01 and 3 more
connected, not waiting:
  rank 3 (pid 4714)               32.0 s ago: set
  pid 99                           2.0 s ago: no request yet
  and 1 more
not connected, or not on this machine: ranks 1, 4
gave up or exited while waiting:
  rank 0 (pid 4711)                1.5 s ago, after 30.0 s for x
refused (40 in all, latest shown):
  127.0.0.1:6                      3.0 s ago: no request has the code 71
)");
}

TEST(StoreStatusTextTest, RankIsMissingForSureOnlyIfAllPeersAreKnown) {
  StoreStatus status{.address = "127.0.0.1:29500"};
  status.connections = 2;
  status.peers = {{"127.0.0.1:1", "", 1, 1, "set", std::nullopt},
                  {"127.0.0.1:2", "", 1, 1, "set", std::nullopt}};
  PeerProcesses processes = {{"127.0.0.1:1", {1, 0, 3}}};
  EXPECT_THAT(text_of(status, processes),
              HasSubstr("\nnot connected, or not on this machine: ranks 1, 2\n"));
  processes["127.0.0.1:2"] = {2, 2, 3};
  EXPECT_THAT(text_of(status, processes), HasSubstr("\nnot connected: rank 1\n"));
  status.connections = 3;
  EXPECT_THAT(text_of(status, processes),
              HasSubstr("\nnot connected, or not on this machine: rank 1\n"));
}

TEST(StoreStatusTextTest, CountsKeysWithoutNames) {
  EXPECT_EQ(text_of(StoreWait{{}, 1, 0, 0}), "for 1 key");
  EXPECT_EQ(text_of(StoreWait{{}, 7, 0, 0}), "for 7 keys");
}

TEST(StoreStatusTextTest, IdleStoreIsOneLine) {
  EXPECT_EQ(text_of(StoreStatus{.address = "[::1]:1", .bytes = 5'000'000, .connections = 0}, {}),
            "store at [::1]:1: 0 connections, 0 keys, 4.8 MiB, up 0.0 s\n");
}

// Two runs share the store, so it is unknown which ranks are missing.
TEST(StoreStatusTextTest, DoesNotCompareRanksOfDifferentWorlds) {
  StoreStatus status{.address = "127.0.0.1:1"};
  const PeerProcesses processes = {{"127.0.0.1:1", {1, 0, 2}}, {"127.0.0.1:2", {2, 1, 3}}};
  EXPECT_EQ(text_of(status, processes).find("not connected"), std::string::npos);
}

}  // namespace
}  // namespace distrun
