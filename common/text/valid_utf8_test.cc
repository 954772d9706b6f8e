#include "common/text/valid_utf8.h"

#include <gtest/gtest.h>

namespace distrun {
namespace {

TEST(ValidUtf8Test, KeepsValidText) {
  EXPECT_EQ(valid_utf8(""), "");
  EXPECT_EQ(valid_utf8("a\"\\\n\t\x7f é 語 😀"), "a\"\\\n\t\x7f é 語 😀");
  EXPECT_EQ(valid_utf8(std::string_view("a\0b", 3)), std::string_view("a\0b", 3));
}

TEST(ValidUtf8Test, ReplacesOtherBytes) {
  EXPECT_EQ(valid_utf8("a\xff"), "a\uFFFD");
  EXPECT_EQ(valid_utf8("\xc3("), "\uFFFD(");
  EXPECT_EQ(valid_utf8("\xed\xa0\x80"), "\uFFFD\uFFFD\uFFFD") << "half of a surrogate pair";
}

}  // namespace
}  // namespace distrun
