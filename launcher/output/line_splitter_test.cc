#include "launcher/output/line_splitter.h"

#include <random>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distrun {
namespace {

using Ending = LineSplitter::Ending;
using ::testing::ElementsAre;
using ::testing::Pair;

using Pieces = std::vector<std::pair<std::string, Ending>>;

Pieces split(const std::vector<std::string>& parts,
             LineSplitter::Returns returns = LineSplitter::Returns::kLive) {
  Pieces pieces;
  LineSplitter splitter(
      [&](std::string_view piece, Ending ending) { pieces.emplace_back(piece, ending); }, returns);
  for (const auto& part : parts) splitter.add(part);
  splitter.end();
  return pieces;
}

std::string joined(const Pieces& pieces) {
  std::string text;
  for (const auto& [piece, ending] : pieces) text += piece;
  return text;
}

TEST(LineSplitterTest, KeepsUnfinishedLines) {
  EXPECT_THAT(split({"epoch 1 lo", "ss 0.5\nepoch", " 2\n\n"}),
              ElementsAre(Pair("epoch 1 loss 0.5\n", Ending::kLineEnd),
                          Pair("epoch 2\n", Ending::kLineEnd), Pair("\n", Ending::kLineEnd)));
}

TEST(LineSplitterTest, PassesOnLinesTogetherIfTheyArriveTogether) {
  EXPECT_THAT(split({"a\nb\nc", "\n"}),
              ElementsAre(Pair("a\nb\n", Ending::kLineEnd), Pair("c\n", Ending::kLineEnd)));
}

TEST(LineSplitterTest, PassesOnUnfinishedLastLine) {
  EXPECT_THAT(split({"a\nb"}),
              ElementsAre(Pair("a\n", Ending::kLineEnd), Pair("b", Ending::kLast)));
  EXPECT_THAT(split({""}), ElementsAre());
}

TEST(LineSplitterTest, PassesOnAnUnfinishedLineIfAsked) {
  Pieces pieces;
  LineSplitter splitter(
      [&](std::string_view piece, Ending ending) { pieces.emplace_back(piece, ending); });
  splitter.add("a\nname? ");
  EXPECT_TRUE(splitter.has_unfinished());
  splitter.pass_unfinished();
  EXPECT_FALSE(splitter.has_unfinished());
  splitter.pass_unfinished();
  splitter.add("caf\xC3");
  splitter.pass_unfinished();
  splitter.add("\xA9\nb");
  splitter.end();
  EXPECT_THAT(pieces, ElementsAre(Pair("a\n", Ending::kLineEnd), Pair("name? ", Ending::kLive),
                                  Pair("caf", Ending::kLive), Pair("\xC3\xA9\n", Ending::kLineEnd),
                                  Pair("b", Ending::kLast)));
}

TEST(LineSplitterTest, DoesNotChangeBytes) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (int i = 0; i < 400; ++i) text += "\r\n\0\xFF\xC3\xA9x"[random() % 8];
    std::vector<std::string> parts;
    for (std::size_t at = 0; at < text.size(); at += parts.back().size()) {
      parts.push_back(text.substr(at, 1 + random() % 30));
    }
    ASSERT_EQ(joined(split(parts)), text);
  }
}

TEST(LineSplitterTest, PassesOnProgressBarsAsTheyArrive) {
  EXPECT_THAT(split({"\r 10%", "\r 2", "0%\ndone\nand", " on\n"}),
              ElementsAre(Pair("\r 10%", Ending::kLive), Pair("\r 2", Ending::kLive),
                          Pair("0%\n", Ending::kLineEnd), Pair("done\n", Ending::kLineEnd),
                          Pair("and on\n", Ending::kLineEnd)));
  EXPECT_THAT(split({"10%\r", "20%"}),
              ElementsAre(Pair("10%\r", Ending::kLive), Pair("20%", Ending::kLive)));
}

TEST(LineSplitterTest, TreatsWindowsLineEndsAsNewlines) {
  EXPECT_THAT(split({"a\r\nb", "c\r\n"}),
              ElementsAre(Pair("a\r\n", Ending::kLineEnd), Pair("bc\r\n", Ending::kLineEnd)));
}

TEST(LineSplitterTest, CanKeepProgressBarsUntilTheLineEnds) {
  EXPECT_THAT(split({"\r 10%", "\r 20%\n"}, LineSplitter::Returns::kKept),
              ElementsAre(Pair("\r 10%\r 20%\n", Ending::kLineEnd)));
}

TEST(LineSplitterTest, PassesOnLongLinesInPieces) {
  constexpr std::size_t kMax = LineSplitter::kLineBytesMax;
  const std::string line(kMax * 2 + 5, 'x');
  for (const std::size_t part : {kMax * 3, kMax, kMax - 1, std::size_t{1000}}) {
    std::vector<std::string> parts;
    for (std::size_t at = 0; at < line.size(); at += part) parts.push_back(line.substr(at, part));
    parts.back() += "\n";
    const auto pieces = split(parts);
    ASSERT_EQ(pieces.size(), 3u) << part;
    EXPECT_EQ(pieces[0], std::pair(std::string(kMax, 'x'), Ending::kTooLong));
    EXPECT_EQ(pieces[1], std::pair(std::string(kMax, 'x'), Ending::kTooLong));
    EXPECT_EQ(pieces[2], std::pair(std::string("xxxxx\n"), Ending::kLineEnd));
  }
}

TEST(LineSplitterTest, DoesNotCutInsideACharacter) {
  std::string line(LineSplitter::kLineBytesMax - 1, 'x');
  line += "é and more";
  const auto pieces = split({line});
  ASSERT_EQ(pieces.size(), 2u);
  EXPECT_EQ(pieces[0].first.size(), LineSplitter::kLineBytesMax - 1);
  EXPECT_EQ(pieces[1], std::pair(std::string("é and more"), Ending::kLast));
}

// Without `\r`: when a line becomes live depends on how bytes arrive.
TEST(LineSplitterTest, LinesDoNotDependOnPortions) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (int i = 0; i < 50; ++i) text += std::string(random() % 20, 'a') + "\n";
    std::vector<std::string> parts;
    for (std::size_t at = 0; at < text.size(); at += parts.back().size()) {
      parts.push_back(text.substr(at, 1 + random() % 30));
    }
    const auto pieces = split(parts);
    ASSERT_EQ(joined(pieces), text);
    for (const auto& [piece, ending] : pieces) ASSERT_EQ(piece.back(), '\n');
  }
}

}  // namespace
}  // namespace distrun
