// RunSuspension suspends a run of tests.  It calls back when every rank is known (has a pid, or
// could not be forked) and so has been stopped, or after `timeout`: ranks of a hanging host run
// until the host is replaced.
//
//     const auto suspension =
//         std::make_shared<RunSuspension>(io, [&] { return … all ranks are known …; });
//     suspension->begin(on_suspended);
//     suspension->look();                      // each time a rank becomes known
//     suspension->end();
//
// It calls nothing after its destruction.  Threads: only the thread of `io`.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

namespace distrun {

class RunSuspension : public std::enable_shared_from_this<RunSuspension> {
 public:
  RunSuspension(boost::asio::io_context& io, std::function<bool()> all_are_known,
                std::chrono::milliseconds timeout = std::chrono::seconds(2));

  // Calls `on_suspended` once, from the event loop, unless end() comes first.
  void begin(std::function<void()> on_suspended);
  void look();
  void end();

  bool is_on() const { return is_on_; }

 private:
  void tell();

  boost::asio::io_context& io_;
  const std::function<bool()> all_are_known_;
  const std::chrono::milliseconds timeout_;
  boost::asio::steady_timer timer_;
  std::function<void()> on_suspended_;
  bool is_on_ = false;
};

}  // namespace distrun
