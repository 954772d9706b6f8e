// LineSplitter cuts a stream of bytes into whole lines, so that the lines of
// several workers can be passed on without ever mixing inside one.
//
//     LineSplitter lines([&](std::string_view piece, Ending) { sink.write(piece); });
//     lines.add("epoch 1 lo");
//     lines.add("ss 0.5\nepoch");        // piece("epoch 1 loss 0.5\n", kLineEnd)
//     lines.end();                       // piece("epoch", kLast): the last one, as it is
//
// What comes together is passed on together: a piece is one whole line or many, or, where it does
// not end with a line's end, a part of a line.  Bytes are passed on unchanged: `\r`, zero bytes,
// no UTF-8.
//
// A line is kept until it is whole, with two exceptions.  No more than kLineBytesMax of it are
// kept: a longer one comes in pieces.  And one in which something is written over what stands
// there already (a progress bar: `\r` that is not the `\r\n` of a line's end) is live: it is
// passed on as it comes.
//
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

  enum class Ending {
    kLineEnd,  // The piece ends with '\n'.
    kTooLong,  // Its line goes on: it is longer than kLineBytesMax.
    kLive,     // Its line goes on, and is passed on as it comes.
    kLast,     // The stream has ended in the middle of a line.
  };
  // The view is good during the call.
  using OnPiece = std::function<void(std::string_view piece, Ending ending)>;

  enum class Returns { kLive, kKept };  // What `\r` in a line does.
  explicit LineSplitter(OnPiece piece, Returns returns = Returns::kLive)
      : piece_(std::move(piece)), returns_(returns) {}

  void add(std::string_view bytes);

  // The stream has ended: what is left is a line without an end.
  void end();

 private:
  void add_some(std::string_view bytes);
  void keep(std::string_view bytes);
  void pass_partial(Ending ending);

  OnPiece piece_;
  Returns returns_;
  std::string partial_;
  bool live_ = false;  // The line under way has been passed on so far.
};

}  // namespace distrun
