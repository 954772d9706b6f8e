// PipeReader reads a pipe to its end.
//
//     PipeReader reader(io, std::move(fd), [](std::string_view bytes) { … }, [] { … its end … });
//     if (!reader.drain()) reader.give_up();         // another process holds the pipe open
//
// No handler is called after its destruction. Threads: only the thread of `io`.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include <boost/asio/io_context.hpp>

#include "common/os/unique_fd.h"

namespace distrun {

class PipeReader {
 public:
  PipeReader(boost::asio::io_context& io, UniqueFd pipe,
             std::function<void(std::string_view)> on_bytes, std::function<void()> on_end);
  ~PipeReader();
  PipeReader(const PipeReader&) = delete;
  PipeReader& operator=(const PipeReader&) = delete;

  // Reads the bytes available now, not those that arrive meanwhile.
  void read_what_is_there();

  // Reads until the pipe is empty. False if it has not ended, because another process holds it
  // open.
  bool drain();

  // Reports the end even if another process holds the pipe open.
  void give_up();

  bool has_ended() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace distrun
