// OutputSink writes lines to a descriptor that other processes may share, such as distrun's stdout.
// It never blocks the launcher, nor sets the descriptor to non-blocking, which would affect the
// shell too.
//
//     OutputSink out(io, STDOUT_FILENO, [&](int error) { … the reader has closed … });
//     out.append("[default0]:hello\n");
//     out.flush();
//     if (out.is_full()) out.when_drained([&] { … continue reading … });
//
// If another source continues after an unfinished line, a newline is added.
//
// A slow reader's backlog is kept. At a limit (is_full) the caller should stop reading, so that the
// worker waits. A closed reader (EPIPE) or a full disk (ENOSPC) is reported once; later output is
// dropped.
//
// Thread safety: the thread of `io` only.
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

  // The caller keeps `fd` open while the sink lives. Throws std::system_error, like Asio's objects,
  // if it cannot watch the descriptor.
  OutputSink(boost::asio::io_context& io, int fd, std::function<void(int error_number)> on_broken);
  ~OutputSink();
  OutputSink(const OutputSink&) = delete;
  OutputSink& operator=(const OutputSink&) = delete;

  // Also passes on all bytes that the sink accepts, at once and in order, with added newlines.
  void copy_to(std::function<void(std::string_view bytes)> copy);

  // Queues bytes; call flush() afterwards. `source` identifies the writer.
  void append(std::string_view bytes, const void* source = nullptr);

  // Writes what the descriptor accepts now, and the rest later.
  void flush();

  // append() and flush(), without copying what is written at once.
  void write(std::string_view bytes, const void* source = nullptr);

  // More than kQueueBytesMax are queued.
  bool is_full() const;

  bool is_empty() const;

  // The last appended byte is not a newline …
  bool line_is_open() const;

  // … and came from `source`.
  bool line_is_open(const void* source) const;

  // Calls `act` once everything is written or dropped, possibly at once.
  void when_drained(std::function<void()> act);

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;  // Shared with the handlers that `io` holds.
};

}  // namespace distrun
