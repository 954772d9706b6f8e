#include "store/protocol/request_parser.h"

#include <fstream>
#include <random>
#include <regex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/test/frames.h"

namespace distrun {
namespace {

using testing::bytes_of;
using ::testing::ElementsAre;
using testing::frame;
using testing::greeting;
using ::testing::HasSubstr;
using testing::text;

// A parser that has read its greeting.
StoreRequestParser greeted(const StoreLimits& limits = {}) {
  StoreRequestParser parser(limits);
  EXPECT_EQ(parser.next(greeting()).value(), greeting().size());
  return parser;
}

std::string refusal(std::string_view bytes, const StoreLimits& limits = {}) {
  auto parser = greeted(limits);
  const auto step = parser.next(bytes);
  return step ? "accepted" : step.error().message;
}

TEST(StoreRequestTest, TableIsInTheOrderOfTheCodes) {
  for (std::size_t i = 0; i < kRequests.size(); ++i) {
    EXPECT_EQ(request_index(kRequests[i].code), i) << kRequests[i].name;
  }
  EXPECT_EQ(request_index(std::uint8_t{19}), kRequestCount);
  EXPECT_EQ(request_index(std::uint8_t{0xFF}), kRequestCount);
}

TEST(StoreRequestTest, ProtocolPageListsEveryRequest) {
  std::ifstream page(DISTRUN_SOURCE_DIR "/docs/store-protocol.md");
  std::vector<std::string> rows;
  for (std::string line; std::getline(page, line);) {
    std::smatch row;
    if (std::regex_search(line, row, std::regex(R"(^\| (\d+) \| `(\w+)` \|)"))) {
      rows.push_back(row[1].str() + " " + row[2].str());
    }
  }
  std::vector<std::string> wanted;
  for (const RequestSpec& spec : kRequests) {
    wanted.push_back(std::to_string(static_cast<int>(spec.code)) + " " + std::string(spec.name));
  }
  EXPECT_EQ(rows, wanted);
}

TEST(StoreRequestParserTest, ReadsEachKindOfField) {
  auto parser = greeted();
  std::string bytes = frame(RequestCode::kCompareSet, text("k") + text("") + text("new"));
  ASSERT_EQ(parser.next(bytes).value(), bytes.size());
  EXPECT_EQ(parser.request().code, RequestCode::kCompareSet);
  EXPECT_THAT(parser.request().keys, ElementsAre("k"));
  EXPECT_THAT(parser.request().values, ElementsAre("", "new"));

  bytes = frame(RequestCode::kAdd, text("k") + bytes_of<std::int64_t>(-5));
  ASSERT_EQ(parser.next(bytes).value(), bytes.size());
  EXPECT_EQ(parser.request().number, -5);

  bytes = frame(RequestCode::kWait, bytes_of<std::uint64_t>(2) + text("a") + text("b"));
  ASSERT_EQ(parser.next(bytes).value(), bytes.size());
  EXPECT_THAT(parser.request().keys, ElementsAre("a", "b"));

  bytes = frame(RequestCode::kMultiSet,
                bytes_of<std::uint64_t>(2) + text("a") + text("1") + text("b") + text("2"));
  ASSERT_EQ(parser.next(bytes).value(), bytes.size());
  EXPECT_THAT(parser.request().keys, ElementsAre("a", "b"));
  EXPECT_THAT(parser.request().values, ElementsAre("1", "2"));

  bytes = frame(RequestCode::kPing, bytes_of<std::uint32_t>(0xFFFFFFFF));
  ASSERT_EQ(parser.next(bytes).value(), bytes.size());
  EXPECT_EQ(parser.request().number, 0xFFFFFFFF);
}

TEST(StoreRequestParserTest, LeavesTheBytesOfTheNextRequest) {
  auto parser = greeted();
  const std::string first = frame(RequestCode::kGet, text("a"));
  EXPECT_EQ(parser.next(first + frame(RequestCode::kGet, text("b"))).value(), first.size());
}

TEST(StoreRequestParserTest, ReadsTheSameRequestsFromPiecesOfAnySize) {
  const std::string stream =
      greeting() + frame(RequestCode::kSet, text("key") + text(std::string(300, 'v'))) +
      frame(RequestCode::kMultiSet,
            bytes_of<std::uint64_t>(2) + text("a") + text("1") + text("") + text("")) +
      frame(RequestCode::kCheck, bytes_of<std::uint64_t>(0)) + frame(RequestCode::kListKeys) +
      frame(RequestCode::kBarrier, text("b") + bytes_of<std::int64_t>(4));
  const auto requests = [&](const auto& size_of_piece) {
    std::vector<std::string> found;
    StoreRequestParser parser;
    std::string unread;
    for (std::size_t at = 0; at < stream.size();) {
      const std::size_t size = size_of_piece();
      unread += stream.substr(at, size);
      at += size;
      // Moved, as if the buffer had grown.
      std::string moved = unread;
      std::string_view rest = moved;
      while (const std::size_t taken = parser.next(rest).value()) {
        const StoreRequest& request = parser.request();
        std::string line(request.name());
        for (const auto key : request.keys) line.append(" ").append(key);
        for (const auto value : request.values) line.append("=").append(value);
        found.push_back(line + " " + std::to_string(request.number));
        rest.remove_prefix(taken);
      }
      unread = std::string(rest);
    }
    EXPECT_EQ(unread, "");
    return found;
  };
  const auto whole = requests([&] { return stream.size(); });
  ASSERT_EQ(whole.size(), 6u);
  EXPECT_EQ(requests([] { return 1; }), whole);
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    EXPECT_EQ(requests([&] { return 1 + random() % 40; }), whole);
  }
}

TEST(StoreRequestParserTest, RefusesAConnectionWithoutGreeting) {
  StoreRequestParser parser;
  EXPECT_EQ(parser.next(frame(RequestCode::kGetNumKeys)).error().message,
            "the connection begins with get_num_keys instead of validate");
  StoreRequestParser other;
  EXPECT_EQ(other.next(frame(RequestCode::kValidate, bytes_of<std::uint32_t>(7))).error().message,
            "validate carries 0x7 instead of 0x3c85f7ce");
}

TEST(StoreRequestParserTest, RefusesASecondGreeting) {
  EXPECT_EQ(refusal(greeting()), "validate for a second time");
}

TEST(StoreRequestParserTest, RefusesAnUnknownCode) {
  EXPECT_EQ(refusal("\x13"), "no request has the code 19");
  EXPECT_EQ(refusal("GET / HTTP/1.1\r\n"), "no request has the code 71");
}

TEST(StoreRequestParserTest, RefusesALengthBeforeItsBytesCome) {
  const StoreLimits limits{
      .key_bytes_max = 4, .value_bytes_max = 8, .keys_max = 2, .request_bytes_max = 64};
  const auto huge = bytes_of<std::uint64_t>(~0ull);
  EXPECT_THAT(refusal(frame(RequestCode::kGet, huge), limits), HasSubstr("at most 4"));
  EXPECT_THAT(refusal(frame(RequestCode::kGet, bytes_of<std::uint64_t>(5)), limits),
              HasSubstr("a key of 5 bytes"));
  EXPECT_THAT(refusal(frame(RequestCode::kSet, text("k") + huge), limits), HasSubstr("at most 8"));
  EXPECT_EQ(refusal(frame(RequestCode::kWait, huge), limits),
            "wait with 18446744073709551615 keys: at most 2 are allowed");
}

TEST(StoreRequestParserTest, RefusesARequestThatIsTooLongInTotal) {
  const StoreLimits limits{.request_bytes_max = 64};
  std::string entries = bytes_of<std::uint64_t>(4);
  for (int i = 0; i < 4; ++i) entries += text("k") + text("12345678");
  EXPECT_THAT(refusal(frame(RequestCode::kMultiSet, entries), limits),
              HasSubstr("more than 64 bytes in all"));
}

}  // namespace
}  // namespace distrun
