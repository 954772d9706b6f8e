#include "launcher/run/output_drain.h"

#include <utility>

namespace distrun {

OutputDrain::OutputDrain(boost::asio::io_context& io, RunOutput& output,
                         std::chrono::milliseconds timeout)
    : io_(io), output_(output), timeout_(timeout), timer_(io) {}

void OutputDrain::begin(std::function<void()> on_drained) {
  begun_ = true;
  output_.when_drained([this, on_drained = std::move(on_drained)] {
    timer_.cancel();
    on_drained();
  });
}

void OutputDrain::stop_after_timeout() {
  timer_.expires_after(timeout_);
  timer_.async_wait([this](boost::system::error_code error) {
    if (!error) io_.stop();
  });
}

}  // namespace distrun
