#include "launcher/run/run_signals.h"

#include <chrono>
#include <csignal>

#include <gtest/gtest.h>

namespace distrun {
namespace {

// As the driver does while it waits for flight recorders.
TEST(RunSignalsTest, ServesSignalsWhileAHandlerRunsTheLoop) {
  boost::asio::io_context io;
  LaunchOptions options;
  options.end_signals = {SIGHUP};
  bool has_ended = false;
  RunSignals signals(io, options, [&](RunSignals::Meaning meaning, int) {
    if (meaning == RunSignals::Meaning::kEnd) {
      has_ended = true;
      return;
    }
    ::raise(SIGHUP);
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (!has_ended && std::chrono::steady_clock::now() < limit) {
      io.run_one_for(std::chrono::milliseconds(10));
    }
    EXPECT_TRUE(has_ended);
    signals.end();
  });
  sigset_t none;
  ::sigemptyset(&none);
  signals.begin(none);
  ::raise(SIGUSR1);
  io.run();
  EXPECT_TRUE(has_ended);
}

}  // namespace
}  // namespace distrun
