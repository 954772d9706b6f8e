// OutputRelay reads one output pipe of a worker and passes it on, line by line, to a sink.
//
//     OutputRelay out(io, std::move(pipe), sink, [&] { … the worker's stdout has ended … });
//     if (out.close()) … somebody still held it open …
//
// Where the sink is full it stops reading: the worker that writes waits, not the launcher's memory.
#pragma once

#include <array>
#include <functional>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "common/unique_fd.h"
#include "common/units.h"
#include "launcher/line_splitter.h"
#include "launcher/output_sink.h"

namespace distrun {

class OutputRelay {
 public:
  OutputRelay(boost::asio::io_context& io, UniqueFd from, OutputSink& to,
              std::function<void()> on_end);

  // Passes on what is in the pipe now, which is everything that a worker that has ended has
  // written, and reads no more.  Returns whether somebody still held the pipe open.
  bool close();

 private:
  void read();
  void finish();

  boost::asio::posix::stream_descriptor from_;
  OutputSink& to_;
  LineSplitter lines_;
  std::function<void()> on_end_;
  std::array<char, 16 * kKiB> buffer_;
};

}  // namespace distrun
