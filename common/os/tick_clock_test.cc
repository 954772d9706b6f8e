#include "common/os/tick_clock.h"

#include <gtest/gtest.h>

namespace distrun {
namespace {

using Clock = std::chrono::steady_clock;

TEST(TickClockTest, TheLastTickIsNotAfterNow) {
  for (int i = 0; i < 1000; ++i) {
    const auto tick = tick_before_now();
    EXPECT_LE(tick, Clock::now());
  }
}

TEST(TickClockTest, TicksGoOn) {
  const auto begin = Clock::now(), limit = begin + std::chrono::seconds(30);
  while (tick_before_now() < begin && Clock::now() < limit) {
  }
  EXPECT_GE(tick_before_now(), begin);
}

TEST(TickClockTest, TheNextTickIsAfterTheLast) {
  const auto last = tick_before_now();
  EXPECT_GT(tick_after_now(), last);
}

}  // namespace
}  // namespace distrun
