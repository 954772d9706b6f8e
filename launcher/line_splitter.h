// LineSplitter cuts a stream of bytes into whole lines, so that the lines of
// several workers can be passed on without ever mixing inside one.
//
//     LineSplitter lines([&](std::string_view line) { sink.write(line); });
//     lines.add("epoch 1 lo");
//     lines.add("ss 0.5\nepoch");        // line("epoch 1 loss 0.5\n")
//     lines.end();                       // line("epoch"): the last one, as it is
//
// A line is kept until it is whole, but no more than kLineBytesMax of it: a longer
// one comes in pieces.  Bytes are passed on unchanged: `\r`, zero bytes, no UTF-8.
// Pure.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "common/units.h"

namespace distrun {

class LineSplitter {
 public:
  static constexpr std::size_t kLineBytesMax = 64 * kKiB;

  // `line` is called with each line, its '\n' included.  The view is good during the call.
  using OnLine = std::function<void(std::string_view line)>;
  explicit LineSplitter(OnLine line) : line_(std::move(line)) {}

  void add(std::string_view bytes);

  // The stream has ended: what is left is a line without an end.
  void end();

 private:
  OnLine line_;
  std::string partial_;
};

}  // namespace distrun
