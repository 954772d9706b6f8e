#include "distrun/store_status.h"

#include <regex>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distrun {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

StoreStatus example() {
  StoreStatus status{.address = "127.0.0.1:29500", .up_s = 12.3456, .keys = 7, .bytes = 1193};
  status.connections = 3;
  status.waiting = 1;
  status.refused = 2;
  status.peers = {
      {"127.0.0.1:1", "127.0.0.1:29500", 12, 9.5, "wait", StoreWait{{"/ready/3"}, 1, 0, 0}},
      {"[::1]:2", "[::1]:29500", 3, 2, "barrier", StoreWait{{"/b"}, 1, 2, 4}},
      {"127.0.0.1:3", "", 1, 1, "", std::nullopt}};
  status.gave_up = {{"127.0.0.1:4", 1.5, 30, StoreWait{{"/x", "/y"}, 9, 0, 0}}};
  status.closed = {{"127.0.0.1:5", 3, "set with a value of 9 bytes: at most 8 are allowed"}};
  return status;
}

TEST(StoreStatusTest, SurvivesARoundTripThroughJson) {
  const auto status = store_status_from_json(to_json(example())).value();
  EXPECT_EQ(to_json(status), to_json(example()));
  EXPECT_EQ(status.address, "127.0.0.1:29500");
  EXPECT_EQ(status.up_s, 12.345);
  ASSERT_EQ(status.peers.size(), 3u);
  EXPECT_THAT(status.peers[0].wait->keys, ElementsAre("/ready/3"));
  EXPECT_EQ(status.peers[1].wait->arrived, 2);
  EXPECT_EQ(status.peers[1].wait->arrivals_wanted, 4);
  EXPECT_FALSE(status.peers[2].wait);
  EXPECT_EQ(status.gave_up[0].wait.keys_left, 9u);
  EXPECT_EQ(status.closed[0].reason, "set with a value of 9 bytes: at most 8 are allowed");
}

TEST(StoreStatusTest, ShowsKeysOfAnyBytesAndLength) {
  StoreStatus status;
  status.peers = {
      {"a:1", "", 0, 0, "wait", StoreWait{{"\xFF\x80\"\n", std::string(8192, 'k')}, 2, 0, 0}}};
  const auto back = store_status_from_json(to_json(status)).value();
  EXPECT_EQ(back.peers[0].wait->keys[0], "\xEF\xBF\xBD\xEF\xBF\xBD\"\n");
  EXPECT_EQ(back.peers[0].wait->keys[1], std::string(200, 'k') + "…");
}

TEST(StoreStatusTest, RefusesNumbersOutOfRange) {
  for (const char* number : {"-1", "1.5", "1e300", "18446744073709551616", "\"7\""}) {
    const std::string text = std::regex_replace(to_json(example()), std::regex(R"("refused":\d+)"),
                                                std::string(R"("refused":)") + number);
    ASSERT_NE(text, to_json(example()));
    const auto status = store_status_from_json(text);
    ASSERT_TRUE(status.has_error()) << number;
    EXPECT_EQ(status.error().kind, ErrorKind::kProtocol);
  }
}

TEST(StoreStatusTest, RefusesOtherJson) {
  for (const char* text : {"", "{", "[]", "7", "{}", R"({"address": 7})"}) {
    const auto status = store_status_from_json(text);
    ASSERT_TRUE(status.has_error()) << text;
    EXPECT_EQ(status.error().kind, ErrorKind::kProtocol);
    EXPECT_THAT(status.error().message, HasSubstr("status: "));
  }
}

}  // namespace
}  // namespace distrun
