#include "common/text/fixed_text.h"

#include <cstdint>
#include <string>

#include <gtest/gtest.h>

namespace distrun {
namespace {

TEST(FixedTextTest, AddsTextsAndNumbers) {
  FixedText<100> text;
  text.add("a ").add_number(-12).add(" 0x").add_hex(UINT64_MAX);
  EXPECT_EQ(text.view(), "a -12 0xffffffffffffffff");
  text.clear();
  EXPECT_EQ(text.view(), "");
}

TEST(FixedTextTest, DropsWhatDoesNotFit) {
  FixedText<5> text;
  text.add("abc").add_number(12345).add("x");
  EXPECT_EQ(text.view(), "abc12");
}

TEST(FixedTextTest, EscapesForJson) {
  FixedText<100> text;
  text.add_json("a\"b\\c\nd\x01\x1F\xC3\xA4");
  EXPECT_EQ(text.view(), R"(a\"b\\c\nd\u0001\u001f??)");
}

TEST(FixedTextTest, JsonCanBeClosedEvenIfItsTextIsCut) {
  FixedText<64> text;
  text.add("{\"m\":\"").add_json(std::string(100, '\x01')).add("\"}");
  EXPECT_EQ(text.view().substr(text.view().size() - 8), R"(\u0001"})");
}

}  // namespace
}  // namespace distrun
