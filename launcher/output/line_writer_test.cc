#include "launcher/output/line_writer.h"

#include <gtest/gtest.h>

namespace distrun {
namespace {

using Ending = LineSplitter::Ending;

class LineWriterTest : public ::testing::Test {
 protected:
  std::string add(std::string_view piece, Ending ending = Ending::kLineEnd,
                  bool interrupted = false) {
    std::string buffer;
    return std::string(writer_.add(piece, ending, prefix_, interrupted, buffer));
  }
  std::string prefix_ = "[p]:";
  LineWriter writer_;
};

TEST_F(LineWriterTest, AddsThePrefixToEveryLine) {
  EXPECT_EQ(add("a\n\nb\n"), "[p]:a\n[p]:\n[p]:b\n");
  EXPECT_EQ(add("c", Ending::kLast), "[p]:c");
  EXPECT_TRUE(writer_.line_is_open());
}

TEST_F(LineWriterTest, KeepsWindowsLineEnds) {
  EXPECT_EQ(add("a\r\n\r\nb\r\n"), "[p]:a\r\n[p]:\r\n[p]:b\r\n");
}

TEST_F(LineWriterTest, RepeatsThePrefixInAProgressBar) {
  EXPECT_EQ(add("\r 10%", Ending::kLive), "\r[p]: 10%");
  EXPECT_EQ(add("\r 2", Ending::kLive), "\r[p]: 2");
  EXPECT_EQ(add("0%", Ending::kLive), "0%");
  EXPECT_EQ(add("\n"), "\n");
  EXPECT_EQ(add("10%\r", Ending::kLive), "[p]:10%\r");
  EXPECT_EQ(add("20%\r", Ending::kLive), "[p]:20%\r");
  EXPECT_EQ(add("\n"), "\n");
  EXPECT_EQ(add("1\r2\r3\n4\n"), "[p]:1\r[p]:2\r[p]:3\n[p]:4\n");
}

TEST_F(LineWriterTest, MarksTheContinuationOfALongLine) {
  EXPECT_EQ(add("aaa", Ending::kTooLong), "[p]:aaa\n");
  EXPECT_EQ(add("bbb", Ending::kTooLong), "[p]:…bbb\n");
  EXPECT_FALSE(writer_.line_is_open());
  EXPECT_EQ(add("c\nd\n"), "[p]:…c\n[p]:d\n");
}

TEST_F(LineWriterTest, OmitsTheNewlineOfABrokenLine) {
  EXPECT_EQ(add("aaa", Ending::kTooLong), "[p]:aaa\n");
  EXPECT_EQ(add("\nb\n"), "[p]:b\n");
  EXPECT_EQ(add("\r 10%", Ending::kLive), "\r[p]: 10%");
  EXPECT_EQ(add("\n", Ending::kLineEnd, true), "");
  EXPECT_EQ(add("c\n"), "[p]:c\n");
}

TEST_F(LineWriterTest, MarksTheContinuationOfAnInterruptedLine) {
  EXPECT_EQ(add("\r 10", Ending::kLive), "\r[p]: 10");
  EXPECT_EQ(add("%", Ending::kLive, true), "[p]:…%");
  EXPECT_EQ(add("\r 20%", Ending::kLive, true), "\r[p]: 20%");
  EXPECT_EQ(add("\n"), "\n");
  EXPECT_EQ(add("c\n", Ending::kLineEnd, true), "[p]:c\n") << "nothing was interrupted";
}

TEST_F(LineWriterTest, DoesNotChangeBytesWithoutPrefix) {
  prefix_ = "";
  EXPECT_EQ(add("aaa", Ending::kTooLong), "aaa");
  EXPECT_EQ(add("a\n\rb", Ending::kLive), "a\n\rb");
  EXPECT_EQ(add("c", Ending::kLive, true), "c");
  EXPECT_EQ(add("\nd\n", Ending::kLineEnd, true), "d\n") << "the line break stands there already";
  EXPECT_EQ(add("\n", Ending::kLineEnd, true), "\n") << "nothing was interrupted";
}

}  // namespace
}  // namespace distrun
