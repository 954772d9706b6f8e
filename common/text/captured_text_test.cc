#include "common/text/captured_text.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distrun {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(CapturedTextTest, KeepsShortTextWhole) {
  CapturedText text;
  EXPECT_EQ(text.text(), "");
  text.add("one\n");
  text.add(std::string(CapturedText::kHeadBytesMax, 'a'));
  text.add("two");
  EXPECT_EQ(text.text(), "one\n" + std::string(CapturedText::kHeadBytesMax, 'a') + "two");
}

TEST(CapturedTextTest, KeepsBeginningAndEndOfLongText) {
  CapturedText text;
  text.add("begin");
  for (int i = 0; i < 100; ++i) text.add(std::string(100'000, 'x'));
  text.add("end");
  const std::string kept = text.text();
  EXPECT_THAT(kept, StartsWith("beginxx"));
  EXPECT_THAT(kept, EndsWith("xxend"));
  const std::size_t missing =
      5 + 10'000'000 + 3 - CapturedText::kHeadBytesMax - CapturedText::kTailBytesMax;
  const std::string told = "\n[" + std::to_string(missing) + " bytes omitted]\n";
  EXPECT_THAT(kept, HasSubstr(told));
  EXPECT_EQ(kept.size(), CapturedText::kHeadBytesMax + told.size() + CapturedText::kTailBytesMax);
}

TEST(CapturedTextTest, CutsAtEndsOfLinesAndCountsThem) {
  for (const std::size_t chunk : {7u, 64u, 100'000u}) {
    std::string all;
    for (int i = 0; i < 100'000; ++i) all += "line " + std::to_string(i) + '\n';
    CapturedText text;
    for (std::size_t at = 0; at < all.size(); at += chunk) text.add(all.substr(at, chunk));
    const std::string kept = text.text();
    const std::string gap = gap_line(text.lost()) + '\n';
    const auto at = kept.find(gap);
    ASSERT_NE(at, std::string::npos);
    const std::string head = kept.substr(0, at), tail = kept.substr(at + gap.size());
    EXPECT_THAT(all, StartsWith(head));
    EXPECT_THAT(all, EndsWith("\n" + tail));
    EXPECT_THAT(head, EndsWith("\n"));
    const auto lines = std::count(kept.begin(), kept.end(), '\n') - 1;
    EXPECT_EQ(text.lost().lines, 100'000u - static_cast<std::size_t>(lines));
    EXPECT_EQ(text.lost().bytes, all.size() - head.size() - tail.size());
  }
}

TEST(CapturedTextTest, CutsLongLinesBetweenCharacters) {
  CapturedText text;
  std::string line = "x";
  for (int i = 0; i < 200'000; ++i) line += "é";
  text.add(line);
  EXPECT_THAT(text.text(),
              HasSubstr("é\n[" + std::to_string(text.lost().bytes) + " bytes omitted]\né"));
}

TEST(CapturedTextTest, PutsNoEmptyLineBeforeTheGap) {
  CapturedText text;
  text.add(std::string(CapturedText::kHeadBytesMax - 1, 'a') + '\n');
  text.add(std::string(CapturedText::kTailBytesMax + 1, 'b'));
  EXPECT_THAT(text.text(), HasSubstr("a\n[1 bytes omitted]\nb"));
}

}  // namespace
}  // namespace distrun
