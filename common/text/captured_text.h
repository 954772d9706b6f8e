// CapturedText keeps the beginning and the end of a process's output.
//
//     CapturedText text;
//     text.add(bytes);
//     text.text()          // "…first lines…\n[9000 lines, 104857600 bytes omitted]\n…last lines…"
//     text.lost()          // {.lines = 9000, .bytes = 104857600}
//
// Cuts at ends of lines; within a line only if the line is longer than kLineBytesMax.
//
// Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "common/units.h"

namespace distrun {

struct LostText {
  std::size_t lines = 0;  // 0 if only parts of lines are lost.
  std::size_t bytes = 0;  // 0 if nothing is lost.

  bool operator==(const LostText&) const = default;
};

// The line in place of lost text, without a newline: "[12 lines, 300 bytes omitted]".
std::string gap_line(const LostText& lost);

class CapturedText {
 public:
  static constexpr std::size_t kHeadBytesMax = 64 * kKiB;
  static constexpr std::size_t kTailBytesMax = 64 * kKiB;
  static constexpr std::size_t kLineBytesMax = 16 * kKiB;

  void add(std::string_view bytes);
  std::string text() const;
  LostText lost() const { return kept().lost; }

 private:
  struct Kept {
    std::string_view head, tail;
    LostText lost;
  };

  Kept kept() const;

  std::string head_, tail_;
  LostText left_out_;          // Between them.
  bool at_line_start_ = true;  // Of `tail_`.
};

}  // namespace distrun
