// LineWriter puts a prefix before each line of one worker, as it goes to a console that it shares
// with others.
//
//     LineWriter writer;
//     writer.add("a\nb\n", Ending::kLineEnd, "[default0]:", false, buffer)
//                                                    // "[default0]:a\n[default0]:b\n"
//
// What is written over what stands there (a progress bar) carries the prefix as well, or it would
// be gone with the first `\r`:  "\r 10%\r 20%\n"  becomes  "\r[p]: 10%\r[p]: 20%\n".
//
// Where a line goes on after it had to be broken, because it is too long or because somebody else
// has written meanwhile, its next part begins with the prefix and kContinued.  The line's own end
// is left out where nothing else of it was left.
//
// Where the prefix is empty nothing is marked and nothing added.
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

  // Returns what is to be written for `piece`: a view of it, or of `buffer`, which is overwritten.
  // `interrupted`: somebody else has written since, and a line break stands there.
  std::string_view add(std::string_view piece, LineSplitter::Ending ending, std::string_view prefix,
                       bool interrupted, std::string& buffer);

  // What has been written last has not ended its line.
  bool line_is_open() const { return at_ == At::kInLine || at_ == At::kReturned; }

 private:
  enum class At {
    kLineStart,
    kInLine,
    kReturned,  // Behind a '\r': at the start of a line that has begun.
    kBroken,    // In the middle of a line of which nothing stands where this goes on.
  };
  void add_line(std::string_view line, std::string_view prefix, std::string& text);

  At at_ = At::kLineStart;
};

}  // namespace distrun
