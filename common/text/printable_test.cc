#include "common/text/printable.h"

#include <gtest/gtest.h>

namespace distrun {
namespace {

TEST(PrintableTest, EscapesControlCharacters) {
  EXPECT_EQ(printable("plain äöü", 80), "plain äöü");
  EXPECT_EQ(printable(std::string_view("a\n\x1b[31m\0\x7f", 9), 80), "a\\x0a\\x1b[31m\\x00\\x7f");
  // Of eight bits (U+009B starts a command of a terminal), of lines, and of the direction of text.
  EXPECT_EQ(printable("\u0080\u009B\u009F", 80), "\\xc2\\x80\\xc2\\x9b\\xc2\\x9f");
  EXPECT_EQ(printable("\u2028\u202E\u2066\u2069", 80),
            "\\xe2\\x80\\xa8\\xe2\\x80\\xae\\xe2\\x81\\xa6\\xe2\\x81\\xa9");
  const std::string around = "\u00A0\u2027\u202F\u2065\u206A\xC2\x41\xE2\x80";
  EXPECT_EQ(printable(around, 80), around);
}

TEST(PrintableTest, CutsLongText) {
  EXPECT_EQ(printable("12345", 5), "12345");
  EXPECT_EQ(printable("123456", 5), "12345…");
}

TEST(PrintableTest, CutsBetweenCharacters) {
  EXPECT_EQ(printable("abc😄", 7), "abc😄");
  for (const std::size_t bytes : {3, 4, 5, 6}) {
    EXPECT_EQ(printable("abc😄", bytes), "abc…") << bytes;
  }
}

}  // namespace
}  // namespace distrun
