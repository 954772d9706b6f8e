// ChildReaper reaps leaked processes that have ended: a subreaper (leaked_processes.h) is their
// parent, so they would stay zombies.
//
//     ChildReaper reaper(io, [&](pid_t child) { return … a worker …; });   // does not reap these
//     reaper.begin();
//     …
//     reaper.end();
//
// It reaps up to a second late, many at once, and uses no CPU while no child ends. Thread safety:
// every method runs on the thread of `io`.
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
