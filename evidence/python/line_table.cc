#include "evidence/python/line_table.h"

#include <limits>

namespace distrun {

namespace {

// Pairs: an unsigned number of bytes, a signed number of lines.
int line_in_pairs(std::span<const std::uint8_t> table, int first_line, std::int64_t offset) {
  constexpr int kNoLine = -128;
  std::int64_t end = 0, line = first_line;
  for (std::size_t i = 0; i + 1 < table.size(); i += 2) {
    const int lines = table[i + 1] < 128 ? table[i + 1] : table[i + 1] - 256;
    if (lines != kNoLine) line += lines;
    end += table[i];
    if (offset < end) return lines == kNoLine ? 0 : static_cast<int>(line);
  }
  return 0;
}

class Locations {
 public:
  explicit Locations(std::span<const std::uint8_t> table) : table_(table) {}

  bool at_end() const { return at_ >= table_.size(); }
  std::uint8_t byte() { return at_end() ? 0 : table_[at_++]; }

  // Six bits per byte, lowest first; bit 6 says that another byte follows.
  std::uint64_t number() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 60; shift += 6) {
      const std::uint8_t part = byte();
      value |= std::uint64_t{part & 63U} << shift;
      if ((part & 64) == 0) break;
    }
    return value;
  }

  // The lowest bit is the sign.
  std::int64_t signed_number() {
    const std::uint64_t value = number();
    const auto magnitude = static_cast<std::int64_t>(value >> 1);
    return (value & 1) == 0 ? magnitude : -magnitude;
  }

  void skip(int bytes) { at_ += static_cast<std::size_t>(bytes); }

 private:
  std::span<const std::uint8_t> table_;
  std::size_t at_ = 0;
};

int line_in_locations(std::span<const std::uint8_t> table, int first_line, std::int64_t offset) {
  constexpr int kInstructionBytes = 2;
  Locations locations(table);
  std::int64_t end = 0, line = first_line;
  while (!locations.at_end()) {
    const std::uint8_t first = locations.byte();
    const int kind = (first >> 3) & 15;
    end += (std::int64_t{first & 7} + 1) * kInstructionBytes;
    bool has_line = true;
    if (kind < 10) {  // The same line, with columns.
      locations.skip(1);
    } else if (kind < 13) {  // Up to two lines later, with columns.
      line += kind - 10;
      locations.skip(2);
    } else if (kind == 13) {  // No columns.
      line += locations.signed_number();
    } else if (kind == 14) {  // Line and columns follow.
      line += locations.signed_number();
      for (int i = 0; i < 3; ++i) locations.number();
    } else {
      has_line = false;
    }
    if (line < 0 || line > std::numeric_limits<int>::max()) return 0;  // Not a table of Python's.
    if (offset < end) return has_line ? static_cast<int>(line) : 0;
  }
  return 0;
}

}  // namespace

int line_of(PythonLines format, std::span<const std::uint8_t> table, int first_line,
            std::int64_t offset) {
  if (offset < 0) return first_line;  // The function has not started.
  return format == PythonLines::kPairs ? line_in_pairs(table, first_line, offset)
                                       : line_in_locations(table, first_line, offset);
}

}  // namespace distrun
