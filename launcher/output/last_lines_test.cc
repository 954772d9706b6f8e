#include "launcher/output/last_lines.h"

#include <random>

#include <gtest/gtest.h>

namespace distrun {
namespace {

std::string last_of(const std::string& text, std::size_t part) {
  LastLines last;
  for (std::size_t at = 0; at < text.size(); at += part) last.add(text.substr(at, part));
  return last.text();
}

TEST(LastLinesTest, KeepsTheLastTenLines) {
  std::string text, expected;
  for (int i = 0; i < 100; ++i) {
    const std::string line = "line " + std::to_string(i) + "\n";
    text += line;
    if (i >= 90) expected += line;
  }
  for (const std::size_t part : {1, 2, 7, 100, 10'000}) EXPECT_EQ(last_of(text, part), expected);
}

TEST(LastLinesTest, CountsAnUnfinishedLastLine) {
  EXPECT_EQ(last_of("a\n\nb", 100), "a\n\nb\n");
  EXPECT_EQ(last_of("", 1), "");
  EXPECT_TRUE(LastLines().is_empty());
}

TEST(LastLinesTest, KeepsTheStartOfALongLine) {
  const std::string kept(LastLines::kLineBytesMax, 'x');
  for (const std::size_t part : {1, 333, 100'000}) {
    EXPECT_EQ(last_of(kept + "y\nb\n", part), kept + "…\nb\n") << part;
    EXPECT_EQ(last_of(kept + "\n", part), kept + "\n") << part;
  }
  EXPECT_EQ(last_of(kept.substr(1) + "é!", 100'000), kept.substr(1) + "…\n");
}

TEST(LastLinesTest, KeepsTheLastStateOfAProgressBar) {
  for (const std::size_t part : {1, 3, 100}) {
    EXPECT_EQ(last_of("\r 10%\r 20%\nok\r\n", part), " 20%\nok\n") << part;
    EXPECT_EQ(last_of("10%\r20%\r", part), "20%\n") << part;
    EXPECT_EQ(last_of(std::string(600, 'x') + "\rshort\n", part), "short\n") << part;
  }
}

TEST(LastLinesTest, ResultDoesNotDependOnPortions) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (int i = 0; i < 300; ++i) text += "ab\r\n"[random() % 4];
    ASSERT_EQ(last_of(text, 1 + random() % 50), last_of(text, 1)) << text;
  }
}

}  // namespace
}  // namespace distrun
