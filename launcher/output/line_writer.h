// LineWriter adds a prefix to each line of a worker, on a console that several workers share.
//
//     LineWriter writer;
//     writer.add("a\nb\n", Ending::kLineEnd, "[default0]:", false, buffer)
//                                                    // "[default0]:a\n[default0]:b\n"
//
// `\r` (a progress bar) overwrites the prefix, so it is repeated: "\r 10%\r 20%\n" becomes "\r[p]:
// 10%\r[p]: 20%\n".
//
// If a line is too long, or another source writes in between, its next part starts with the prefix
// and kContinued. If only the newline is left, it is omitted. With an empty prefix, bytes do not
// change.
//
// Pure.
#pragma once

#include <string>
#include <string_view>

#include "launcher/output/line_splitter.h"

namespace distrun {

class LineWriter {
 public:
  static constexpr std::string_view kContinued = "…";

  // Returns a view of `piece`, or of `buffer`, which is overwritten. `interrupted`: another source
  // has written since, and the console is at the start of a line.
  std::string_view add(std::string_view piece, LineSplitter::Ending ending, std::string_view prefix,
                       bool interrupted, std::string& buffer);

  // The last output did not end its line.
  bool line_is_open() const { return at_ == At::kInLine || at_ == At::kReturned; }

 private:
  enum class At {
    kLineStart,
    kInLine,
    kReturned,  // After '\r' in an unfinished line.
    kBroken,    // Within a line that continues on a new line of the console.
  };
  void add_line(std::string_view line, std::string_view prefix, std::string& text);

  At at_ = At::kLineStart;
};

}  // namespace distrun
