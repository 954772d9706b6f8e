// LastLines keeps the last lines of a worker's output.
//
//     LastLines last;
//     last.add(bytes);                 // cheap, however long `bytes` is
//     report.last_output = last.text();
//
// A long line is cut and ends with "…". If `\r` overwrites a line (a progress bar), its last state
// is kept. Empty lines count. Pure.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>

namespace distrun {

class LastLines {
 public:
  static constexpr std::size_t kLinesMax = 10;
  static constexpr std::size_t kLineBytesMax = 500;

  void add(std::string_view bytes);

  bool is_empty() const { return lines_.empty(); }

  // Whole lines; each, including the last, ends with '\n'. "\r\n" becomes '\n'.
  std::string text() const;

 private:
  struct Line {
    std::string bytes;
    bool cut = false;       // It was longer.
    bool returned = false;  // After '\r': the next bytes overwrite it.
    bool whole = false;
  };
  static void extend(Line& line, std::string_view bytes);

  std::deque<Line> lines_;
};

}  // namespace distrun
