// OutputRelay reads one output pipe of a worker and passes on what comes.
//
//     OutputRelay out(io, std::move(pipe), stream, buffer, [&] { … the stream has ended … });
//     if (out.close()) … somebody still held it open …
//
// Where the console is full it stops reading: the worker that writes waits, not the launcher's
// memory.  That holds for all relays together: what they take beyond the console's bound is what
// one of them reads at once.
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
  // `to` and `buffer` outlive it; a buffer may serve many relays of one thread.
  OutputRelay(boost::asio::io_context& io, UniqueFd from, StreamOutput& to, std::span<char> buffer,
              std::function<void()> on_end);
  OutputRelay(const OutputRelay&) = delete;
  OutputRelay& operator=(const OutputRelay&) = delete;
  ~OutputRelay();

  // Passes on what is in the pipe now, and goes on.
  void take();

  // Passes on what is in the pipe now, which is everything that a worker that has ended has
  // written, and reads no more.  Returns whether somebody still held the pipe open.
  bool close();

 private:
  void wait();
  void read();
  void finish();

  boost::asio::posix::stream_descriptor from_;
  StreamOutput& to_;
  std::span<char> buffer_;
  std::function<void()> on_end_;
  std::shared_ptr<bool> open_ = std::make_shared<bool>(true);  // Shared with what is called later.
};

}  // namespace distrun
