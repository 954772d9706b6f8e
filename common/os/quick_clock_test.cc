#include "common/os/quick_clock.h"

#include <chrono>
#include <thread>

#include <gtest/gtest.h>

namespace distrun {
namespace {

using std::chrono::milliseconds;
using std::chrono::system_clock;

// For some milliseconds: so long that both ways to find a time are used.
bool agrees_with_the_system_clock() {
  constexpr std::chrono::microseconds kApart(20);
  const auto begin = system_clock::now();
  while (system_clock::now() - begin < milliseconds(5)) {
    const auto before = system_clock::now();
    const auto quick = quick_time_now();
    const auto after = system_clock::now();
    if (quick < before - kApart || quick > after + kApart) return false;
  }
  return true;
}

// Someone may set the clock meanwhile.
bool agrees_at_last() {
  for (int tries = 0; tries < 10; ++tries) {
    if (agrees_with_the_system_clock()) return true;
  }
  return false;
}

TEST(QuickClockTest, AgreesWithTheSystemClock) { EXPECT_TRUE(agrees_at_last()); }

TEST(QuickClockTest, AgreesOnEachThread) {
  bool agrees = false;
  std::thread([&] { agrees = agrees_at_last(); }).join();
  EXPECT_TRUE(agrees);
}

TEST(QuickClockTest, DoesNotGoBackOnAThread) {
  auto last = quick_time_now();
  int backwards = 0;
  for (int i = 0; i < 1'000'000; ++i) {
    const auto now = quick_time_now();
    if (now < last) ++backwards;
    last = now;
  }
  EXPECT_LE(backwards, 1);  // Someone may set the clock once.
}

}  // namespace
}  // namespace distrun
