// NameLookUp finds the addresses of a host by its name, without holding up the event loop.
//
//     NameLookUp look_up(io, "gpu-7", 29500, [&](Result<ResolvedAddresses> found) { … });
//
// A look-up cannot be ended: it runs in a thread of its own, which is left behind where it takes
// longer than NameLookUp lives.  The handler is called once, on the thread of `io`, and not after
// the end of the NameLookUp.  A bound on the time is the caller's.  Numeric addresses need none.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "distrun/result.h"
#include "store/network/look_up.h"

namespace distrun {

class NameLookUp {
 public:
  NameLookUp(boost::asio::io_context& io, const std::string& host, std::uint16_t port,
             std::function<void(Result<ResolvedAddresses>)> handler);

 private:
  struct Answer;
  std::shared_ptr<Answer> answer_;
  boost::asio::posix::stream_descriptor done_;
};

}  // namespace distrun
