// OutputSink writes lines to a descriptor that distrun shares with others (its own
// stdout or stderr) without ever blocking the launcher and without setting it to
// non-blocking, which would change it for the shell as well.
//
//     OutputSink out(io, STDOUT_FILENO, [&] { … nobody reads any more … });
//     out.append("[default0]:hello\n");
//     out.flush();
//     if (out.is_full()) out.when_drained([&] { … read on … });
//
// Pieces from different sources never share a line: where one source has left a line
// without an end and another goes on, a line break is put between.
//
// What a slow reader has not taken is kept, up to a bound by which the caller is
// asked to stop reading (is_full): back-pressure reaches the worker that writes.
// A reader that is gone (EPIPE), or a disk that is full (ENOSPC), is reported once;
// what comes after is dropped.
//
// Threads: every method runs on the thread of `io`.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include <boost/asio/io_context.hpp>

#include "common/units.h"

namespace distrun {

class OutputSink {
 public:
  static constexpr std::size_t kQueueBytesMax = 256 * kKiB;

  // `fd` stays the caller's, and open for as long as the sink lives.  Throws std::system_error
  // where no descriptor is to be had to watch it with, as Asio's own objects do.
  OutputSink(boost::asio::io_context& io, int fd, std::function<void(int error_number)> on_broken);
  ~OutputSink();
  OutputSink(const OutputSink&) = delete;
  OutputSink& operator=(const OutputSink&) = delete;

  // Puts bytes behind those that wait to be written; flush() is to follow.  `source` tells
  // who they are from; it is only compared.
  void append(std::string_view bytes, const void* source = nullptr);

  // Writes what the descriptor takes now.  The rest follows by itself as it is taken.
  void flush();

  // append() and flush(), without a copy of what is taken at once.
  void write(std::string_view bytes, const void* source = nullptr);

  // More than kQueueBytesMax are kept.
  bool is_full() const;

  bool is_empty() const;

  // The last byte that was appended does not end a line.
  bool line_is_open() const;

  // … and it was from `source`.
  bool line_is_open(const void* source) const;

  // Calls `act` once when everything has been written (or dropped); at once where it has.
  void when_drained(std::function<void()> act);

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;  // Shared with the handlers that `io` holds.
};

}  // namespace distrun
