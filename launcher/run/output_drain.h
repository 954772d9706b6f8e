// OutputDrain ends the event loop of a run in good time: after the readers of the output have taken
// all of it, or, if the run must end even so, after a timeout.
//
//     OutputDrain drain(io, output, shutdown_timeout);
//     if (… the run was told to end …) drain.stop_after_timeout();
//     drain.begin([&] { … the loop has nothing more to do … });
//
// A reader may be slow, as with any program, and hang, as terminals do.  Thread safety: every
// method runs on the thread of `io`.
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

  // Calls `on_drained` once when the consoles have taken everything.  No output may follow.
  void begin(std::function<void()> on_drained);
  bool has_begun() const { return begun_; }

  // Stops `io` if the consoles have not taken everything when the timeout is over.
  void stop_after_timeout();

  // Stops `io` now.
  void stop() { io_.stop(); }

 private:
  boost::asio::io_context& io_;
  RunOutput& output_;
  std::chrono::milliseconds timeout_;
  boost::asio::steady_timer timer_;
  bool begun_ = false;
};

}  // namespace distrun
