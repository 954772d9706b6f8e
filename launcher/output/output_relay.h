// OutputRelay reads an output pipe of a worker and passes on the bytes.
//
//     OutputRelay out(io, std::move(pipe), stream, buffer, [&] { … the stream has ended … });
//     if (out.close()) … another process still held it open …
//
// While the console is full it does not read: the worker waits, and memory is bounded. All relays
// together exceed the console's limit by at most one read.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "common/os/unique_fd.h"
#include "launcher/output/stream_output.h"

namespace distrun {

class OutputRelay {
 public:
  // `to` and `buffer` must outlive it; relays may share a buffer.
  OutputRelay(boost::asio::io_context& io, UniqueFd from, StreamOutput& to, std::span<char> buffer,
              std::function<void()> on_end);
  OutputRelay(const OutputRelay&) = delete;
  OutputRelay& operator=(const OutputRelay&) = delete;
  ~OutputRelay();

  // Passes on what the pipe contains now.
  void take();

  // Passes on what the pipe contains now (all output of a worker that has ended), then stops
  // reading. Returns whether another process held the pipe open.
  bool close();

 private:
  void wait();
  void read();
  void finish();

  boost::asio::posix::stream_descriptor from_;
  StreamOutput& to_;
  std::span<char> buffer_;
  std::function<void()> on_end_;
  std::shared_ptr<bool> open_ = std::make_shared<bool>(true);  // For callbacks that outlive this.
};

}  // namespace distrun
