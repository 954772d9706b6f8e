// PipeReader reads a pipe to its end.
//
//     PipeReader reader(io, std::move(fd), [](std::string_view bytes) { … }, [] { … its end … });
//     if (!reader.drain()) reader.give_up();         // somebody holds the pipe, and may for ever
//
// Neither handler is called after its destructor.  Threads: all on that of `io`.
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

  // Reads what is there now, and not what comes meanwhile.
  void read_what_is_there();

  // Reads until nothing more is there.  False where that is not all: somebody else holds the pipe.
  bool drain();

  // Its end, whoever holds it.
  void give_up();

  bool has_ended() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace distrun
