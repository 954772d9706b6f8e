// OutputDrain ends the event loop of a run when the readers have taken all output, or after a
// timeout if the run must end: readers may be slow, or hang.
//
//     OutputDrain drain(io, output, shutdown_timeout);
//     if (… the run must end …) drain.stop_after_timeout();
//     drain.begin([&] { … the loop has nothing more to do … });
//
// Thread safety: the thread of `io` only.
#pragma once

#include <chrono>
#include <functional>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "launcher/run/run_output.h"

namespace distrun {

class OutputDrain {
 public:
  // `io` and `output` must outlive it.
  OutputDrain(boost::asio::io_context& io, RunOutput& output, std::chrono::milliseconds timeout);

  // Calls `on_drained` once the consoles have taken everything. No output may follow.
  void begin(std::function<void()> on_drained);
  bool has_begun() const { return begun_; }

  // Stops `io` if the consoles are too slow.
  void stop_after_timeout();

  void stop() { io_.stop(); }

 private:
  boost::asio::io_context& io_;
  RunOutput& output_;
  std::chrono::milliseconds timeout_;
  boost::asio::steady_timer timer_;
  bool begun_ = false;
};

}  // namespace distrun
