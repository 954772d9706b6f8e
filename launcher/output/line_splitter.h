// LineSplitter cuts a stream of bytes into whole lines, so that lines of different workers never
// mix.
//
//     LineSplitter lines([&](std::string_view piece, Ending) { sink.write(piece); });
//     lines.add("epoch 1 lo");
//     lines.add("ss 0.5\nepoch");        // piece("epoch 1 loss 0.5\n", kLineEnd)
//     lines.end();                       // piece("epoch", kLast)
//
// A piece is one or more whole lines, or part of a line. Bytes never change, including `\r`, zero
// bytes and invalid UTF-8.
//
// Part of a line is kept until the line ends, unless it exceeds kLineBytesMax, pass_unfinished() is
// called, or it is live: `\r` (not "\r\n") overwrites it, like a progress bar.
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
    kLineEnd,
    kTooLong,  // The line continues: it is longer than kLineBytesMax.
    kLive,     // The line continues, and is passed on as it arrives.
    kLast,     // The stream ended within a line.
  };
  // The view is valid during the call.
  using OnPiece = std::function<void(std::string_view piece, Ending ending)>;

  // After `\r`: pass bytes on, or keep the line until its end.
  enum class Returns { kLive, kKept };
  explicit LineSplitter(OnPiece piece, Returns returns = Returns::kLive)
      : piece_(std::move(piece)), returns_(returns) {}

  void add(std::string_view bytes);

  // Part of a line is kept.
  bool has_unfinished() const { return !partial_.empty(); }

  // Passes the kept part on as kLive, and keeps what follows.
  void pass_unfinished();

  // Ends the stream, and passes on an unfinished line.
  void end();

 private:
  void add_some(std::string_view bytes);
  void keep(std::string_view bytes);
  void pass_partial(Ending ending);

  OnPiece piece_;
  Returns returns_;
  std::string partial_;
  bool live_ = false;  // All of the unfinished line has been passed on.
};

}  // namespace distrun
