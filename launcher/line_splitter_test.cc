#include "launcher/line_splitter.h"

#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distrun {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> split(const std::vector<std::string>& pieces) {
  std::vector<std::string> lines;
  LineSplitter splitter([&](std::string_view line) { lines.emplace_back(line); });
  for (const auto& piece : pieces) splitter.add(piece);
  splitter.end();
  return lines;
}

TEST(LineSplitterTest, KeepsALineUntilItIsWhole) {
  EXPECT_THAT(split({"epoch 1 lo", "ss 0.5\nepoch", " 2\n\n"}),
              ElementsAre("epoch 1 loss 0.5\n", "epoch 2\n", "\n"));
}

TEST(LineSplitterTest, PassesTheLastPartialLineOnAsItIs) {
  EXPECT_THAT(split({"a\nb"}), ElementsAre("a\n", "b"));
  EXPECT_THAT(split({""}), ElementsAre());
}

TEST(LineSplitterTest, ChangesNoByte) {
  const std::string bytes("10%\r50%\r\0\xFF\n", 11);
  EXPECT_THAT(split({bytes}), ElementsAre(bytes));
}

TEST(LineSplitterTest, ALongLineComesInPiecesAndIsNotKept) {
  const std::string line(LineSplitter::kLineBytesMax * 2 + 5, 'x');
  const auto lines = split({line + "\n"});
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].size(), LineSplitter::kLineBytesMax);
  EXPECT_EQ(lines[2], "xxxxx\n");
}

TEST(LineSplitterTest, TheSameLinesComeHoweverTheBytesAreCut) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (int i = 0; i < 50; ++i) text += std::string(random() % 20, 'a') + "\n";
    std::vector<std::string> pieces;
    for (std::size_t at = 0; at < text.size(); at += pieces.back().size()) {
      pieces.push_back(text.substr(at, 1 + random() % 30));
    }
    ASSERT_EQ(split(pieces), split({text}));
  }
}

}  // namespace
}  // namespace distrun
