// ChildReaper reaps children that nothing else reaps: a subreaper (leaked_processes.h) becomes the
// parent of leaked processes, and one that ends is a zombie until its parent reaps it.
//
//     ChildReaper reaper(io, [&](pid_t child) { return … a worker …; });   // those are kept
//     reaper.begin();
//     …
//     reaper.end();
//
// Nothing waits for it, so it comes up to a second late and looks at many at once.  It uses no CPU
// while no child ends.  Threads: every method runs on the thread of `io`.
#pragma once

#include <functional>

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <sys/types.h>

namespace distrun {

class ChildReaper {
 public:
  ChildReaper(boost::asio::io_context& io, std::function<bool(pid_t)> is_kept);

  void begin();
  void end();

 private:
  std::function<bool(pid_t)> is_kept_;
  boost::asio::signal_set child_ended_;
  boost::asio::steady_timer pause_;
  bool ended_ = false;
};

}  // namespace distrun
