// OrphanReaper reaps what ends of a run and is nobody else's: orphans become children of a process
// that adopts descendants (descendants.h), and one that ends is a zombie until it is reaped.
//
//     OrphanReaper reaper(io, [&](pid_t child) { return … a worker …; });   // those are kept
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

class OrphanReaper {
 public:
  OrphanReaper(boost::asio::io_context& io, std::function<bool(pid_t)> is_kept);

  void begin();
  void end();

 private:
  std::function<bool(pid_t)> is_kept_;
  boost::asio::signal_set child_ended_;
  boost::asio::steady_timer pause_;
  bool ended_ = false;
};

}  // namespace distrun
