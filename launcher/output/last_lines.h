// LastLines keeps the end of what a worker has written: a few lines, each up to a bound.
//
//     LastLines last;
//     last.add(bytes);                 // again and again, at a cost that hardly depends on their
//     size report.last_output = last.text();
//
// Of a line that is too long its beginning stays, and "…"; of one in which something was written
// over what stood there (a progress bar), what stood there last.  Empty lines count.  Pure.
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

  // Nothing has been written.
  bool is_empty() const { return lines_.empty(); }

  // Whole lines, the last one too, each with its '\n'; "\r\n" is '\n'.
  std::string text() const;

 private:
  struct Line {
    std::string bytes;
    bool cut = false;       // There was more.
    bool returned = false;  // What comes next is written over it.
    bool whole = false;
  };
  static void extend(Line& line, std::string_view bytes);

  std::deque<Line> lines_;
};

}  // namespace distrun
