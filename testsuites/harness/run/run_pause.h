// RunPause is a pause of a run of tests.  It calls back when every rank is known, and so has been
// told to stop: its pid has come, or it could not be forked.  When the time-out is over it calls
// back all the same: the ranks of a host that hangs go on until the host is replaced.
//
//     const auto pause = std::make_shared<RunPause>(io, [&] { return … all ranks are known …; });
//     pause->begin(on_paused);
//     pause->look();                      // whenever a rank has become known
//     pause->end();
//
// Held by a shared_ptr: when it is gone, it calls back no more.  Threads: all on that of `io`.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

namespace distrun {

class RunPause : public std::enable_shared_from_this<RunPause> {
 public:
  RunPause(boost::asio::io_context& io, std::function<bool()> all_are_known,
           std::chrono::milliseconds timeout = std::chrono::seconds(2));

  // `on_paused` is called once, from the event loop.
  void begin(std::function<void()> on_paused);
  void look();
  // Nothing is called back any more.
  void end();

  bool is_on() const { return is_on_; }

 private:
  void tell();

  boost::asio::io_context& io_;
  const std::function<bool()> all_are_known_;
  const std::chrono::milliseconds timeout_;
  boost::asio::steady_timer timer_;
  std::function<void()> on_paused_;
  bool is_on_ = false;
};

}  // namespace distrun
