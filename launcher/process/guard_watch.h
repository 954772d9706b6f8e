// GuardWatch notices that the guard has ended (guard.h).
//
//     GuardWatch guard(io);
//     guard.begin(lifeline, [&] { … end what runs … });
//     …
//     guard.end();                  // no call of the handler after this
//
// Thread safety: every method and the handler run on the thread of `io`.
#pragma once

#include <functional>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "launcher/process/guard.h"

namespace distrun {

class GuardWatch {
 public:
  explicit GuardWatch(boost::asio::io_context& io) : lifeline_(io) {}

  // Without a guard, does nothing.
  void begin(const GuardLifeline& lifeline, std::function<void()> on_end);

  void end();

 private:
  boost::asio::posix::stream_descriptor lifeline_;  // A copy: the lifeline stays open.
};

}  // namespace distrun
