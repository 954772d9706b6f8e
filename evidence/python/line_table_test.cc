#include "evidence/python/line_table.h"

#include <vector>

#include <gtest/gtest.h>

namespace distrun {
namespace {

using Bytes = std::vector<std::uint8_t>;

std::uint8_t signed_byte(int value) { return static_cast<std::uint8_t>(value); }

// An entry of locations: its kind and its number of two-byte instructions.
std::uint8_t entry(int kind, int instructions) {
  return static_cast<std::uint8_t>(0x80 | kind << 3 | (instructions - 1));
}

TEST(LineTableTest, PairsCountBytesAndLines) {
  const Bytes table = {4, 1, 6, 2, 2, signed_byte(-128), 2, signed_byte(-3)};
  const auto line = [&](int offset) { return line_of(PythonLines::kPairs, table, 10, offset); };
  EXPECT_EQ(line(0), 11);
  EXPECT_EQ(line(3), 11);
  EXPECT_EQ(line(4), 13);
  EXPECT_EQ(line(9), 13);
  EXPECT_EQ(line(10), 0);  // No line.
  EXPECT_EQ(line(12), 10);
  EXPECT_EQ(line(14), 0);  // After the end.
}

TEST(LineTableTest, LocationsHaveFiveForms) {
  const Bytes table = {
      entry(0, 1),
      0,  // The same line.
      entry(11, 2),
      0,
      0,  // One line later.
      entry(13, 1),
      5 << 1,  // Five lines later.
      entry(14, 1),
      64 | ((100 << 1) & 63),
      (100 << 1) >> 6,
      0,
      64 | 1,
      1,
      0,             // 100 lines later.
      entry(15, 1),  // No line.
      entry(13, 1),
      (2 << 1) | 1,  // Two lines back.
  };
  const auto line = [&](int offset) { return line_of(PythonLines::kLocations, table, 10, offset); };
  EXPECT_EQ(line(0), 10);
  EXPECT_EQ(line(2), 11);
  EXPECT_EQ(line(5), 11);
  EXPECT_EQ(line(6), 16);
  EXPECT_EQ(line(8), 116);
  EXPECT_EQ(line(10), 0);
  EXPECT_EQ(line(12), 114);
  EXPECT_EQ(line(14), 0);  // After the end.
}

TEST(LineTableTest, FunctionThatHasNotStartedIsAtItsFirstLine) {
  EXPECT_EQ(line_of(PythonLines::kLocations, Bytes{entry(11, 1), 0, 0}, 10, -2), 10);
  EXPECT_EQ(line_of(PythonLines::kPairs, Bytes{4, 1}, 10, -1), 10);
}

TEST(LineTableTest, ReadsNothingBeyondATruncatedTable) {
  for (const auto format : {PythonLines::kPairs, PythonLines::kLocations}) {
    EXPECT_EQ(line_of(format, Bytes{}, 10, 0), 0);
    EXPECT_EQ(line_of(format, Bytes{1}, 10, 4), 0);
    EXPECT_LE(line_of(format, Bytes(100, 0xff), 10, 10'000), 0);
  }
}

}  // namespace
}  // namespace distrun
