// NameLookUp resolves a host name without blocking the event loop.
//
//     NameLookUp look_up(io, "gpu-7", 29500, [&](Result<ResolvedAddresses> found) { … });
//
// A look-up cannot be canceled: its thread may outlive the NameLookUp. The handler is called at
// most once, on the thread of `io`, and never after the NameLookUp is destroyed. The caller must
// set a timeout.
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
