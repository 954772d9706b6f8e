#include "common/text/split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distrun {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(SplitTest, KeepsEmptyParts) {
  EXPECT_THAT(split("a,,b,", ','), ElementsAre("a", "", "b", ""));
  EXPECT_THAT(split("", ','), ElementsAre(""));
}

TEST(SplitTest, WordsAreNotEmpty) {
  EXPECT_THAT(words_of(",a,,b c,", ','), ElementsAre("a", "b c"));
  EXPECT_THAT(words_of("", ','), IsEmpty());
}

}  // namespace
}  // namespace distrun
