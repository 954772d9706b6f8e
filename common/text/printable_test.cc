#include "common/text/printable.h"

#include <gtest/gtest.h>

namespace distrun {
namespace {

TEST(PrintableTest, EscapesControlCharacters) {
  EXPECT_EQ(printable("plain äöü", 80), "plain äöü");
  EXPECT_EQ(printable(std::string_view("a\n\x1b[31m\0\x7f", 9), 80), "a\\x0a\\x1b[31m\\x00\\x7f");
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
