#include "common/text/captured_text.h"

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

TEST(CapturedTextTest, PutsNoEmptyLineBeforeTheGap) {
  CapturedText text;
  text.add(std::string(CapturedText::kHeadBytesMax - 1, 'a') + '\n');
  text.add(std::string(CapturedText::kTailBytesMax + 1, 'b'));
  EXPECT_THAT(text.text(), HasSubstr("a\n[1 bytes omitted]\nb"));
}

}  // namespace
}  // namespace distrun
