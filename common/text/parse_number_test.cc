#include "common/text/parse_number.h"

#include <cstdint>

#include <gtest/gtest.h>

namespace distrun {
namespace {

TEST(ParseNumberTest, ReadsTheWholeText) {
  EXPECT_EQ(parse_number<int>("-12").value(), -12);
  EXPECT_EQ(parse_number<std::uint16_t>("65535").value(), 65535);
}

TEST(ParseNumberTest, RefusesOtherText) {
  for (const char* text : {"", " 1", "1 ", "4x", "1.5", "+1", "0x10"}) {
    EXPECT_TRUE(parse_number<int>(text).has_error()) << text;
  }
  EXPECT_EQ(parse_number<int>("4x").error().message, "'4x' is not a whole number");
}

TEST(ParseNumberTest, NamesTheBoundsOfANumberOutOfRange) {
  EXPECT_EQ(parse_number<int>("0", 1, 8).error().message, "0 is not between 1 and 8");
  EXPECT_EQ(parse_number<std::uint16_t>("65536").error().message,
            "65536 is not between 0 and 65535");
}

}  // namespace
}  // namespace distrun
