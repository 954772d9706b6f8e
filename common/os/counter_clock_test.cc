#include "common/os/counter_clock.h"

#include <chrono>
#include <cstdint>

#include <gtest/gtest.h>

namespace distrun {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

// A counter of 2 GHz and a system clock, which the test moves.
class CounterClockTest : public ::testing::Test {
 protected:
  void pass(nanoseconds time) {
    count_ += 2 * static_cast<std::uint64_t>(time.count());
    time_ += time;
  }
  void set_clock_by(nanoseconds step) { time_ += step; }

  // How far the clock is ahead of the system's.
  nanoseconds error() {
    const auto time = clock_.time_at(count_);
    reads_ += time ? 0 : 1;
    return (time ? *time : clock_.take({count_, time_, count_ + 100})) - time_;
  }
  void find_rate() {
    for (int i = 0; i < 4; ++i) {
      error();
      pass(microseconds(300));
    }
    error();
  }

  CounterClock clock_;
  std::uint64_t count_ = 1'000'000'000'000;
  CounterClock::Time time_{seconds(1'000'000'000)};
  int reads_ = 0;
};

TEST_F(CounterClockTest, ReadsTheSystemClockOnceAMillisecond) {
  find_rate();
  reads_ = 0;
  for (int i = 0; i < 10'000; ++i) {
    pass(microseconds(1));
    EXPECT_LE(std::chrono::abs(error()), nanoseconds(1)) << i;
  }
  EXPECT_GE(reads_, 9);
  EXPECT_LE(reads_, 11);
}

TEST_F(CounterClockTest, ReadsTheSystemClockUntilItKnowsTheRate) {
  for (int i = 0; i < 49; ++i) {
    EXPECT_EQ(error().count(), 0) << i;
    pass(microseconds(10));
  }
  EXPECT_EQ(reads_, 49);
}

TEST_F(CounterClockTest, IsWrongForAMillisecondAtMostAfterTheClockIsSet) {
  for (const nanoseconds step : {nanoseconds(seconds(5)), nanoseconds(seconds(-5)),
                                 nanoseconds(milliseconds(3)), nanoseconds(milliseconds(-3))}) {
    find_rate();
    set_clock_by(step);
    pass(microseconds(1'001));
    error();
    for (int i = 0; i < 3'000; ++i) {
      pass(microseconds(1));
      EXPECT_LT(std::chrono::abs(error()), microseconds(10)) << step.count() << " " << i;
    }
  }
}

TEST_F(CounterClockTest, AClockThatIsSetWhileNobodyReadsGivesNoWrongRate) {
  find_rate();
  pass(seconds(60));
  set_clock_by(-seconds(60) + milliseconds(10));
  for (int i = 0; i < 10'000; ++i) {
    EXPECT_LT(std::chrono::abs(error()), microseconds(1)) << i;
    pass(microseconds(1));
  }
}

TEST_F(CounterClockTest, IsRightAfterAPause) {
  find_rate();
  for (const nanoseconds pause : {nanoseconds(milliseconds(2)), nanoseconds(seconds(3))}) {
    pass(pause);
    for (int i = 0; i < 2'000; ++i) {
      EXPECT_LE(std::chrono::abs(error()), nanoseconds(1)) << i;
      pass(microseconds(1));
    }
  }
}

TEST_F(CounterClockTest, DoesNotGoBackByInexactReadings) {
  find_rate();
  pass(microseconds(5));
  const auto time = clock_.time_at(count_);
  ASSERT_TRUE(time);
  const auto taken = [&](nanoseconds back) {
    return clock_.take({count_, *time - back, count_ + 100});
  };
  EXPECT_EQ(taken(microseconds(2)), *time);
  EXPECT_EQ(taken(milliseconds(2)), *time - milliseconds(2));  // It was set.
}

TEST_F(CounterClockTest, AReadingThatWasInterruptedIsNotContinued) {
  find_rate();
  pass(microseconds(1'500));
  EXPECT_EQ(clock_.take({count_, time_ + milliseconds(2), count_ + 4'000'000}),
            time_ + milliseconds(2));
  pass(milliseconds(2));
  for (int i = 0; i < 100; ++i) {
    pass(microseconds(10));
    EXPECT_LE(std::chrono::abs(error()), nanoseconds(1)) << i;
  }
}

TEST_F(CounterClockTest, TheFirstReadingGivesNoRate) {
  count_ = 1'000'000'000'000'000;  // After some days.
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(error().count(), 0) << i;
    pass(nanoseconds(100));
  }
}

TEST_F(CounterClockTest, ACounterThatGoesBackGivesNoRate) {
  error();
  pass(microseconds(600));
  count_ -= 4'000'000;
  for (int i = 0; i < 100; ++i) {
    EXPECT_LT(std::chrono::abs(error()), microseconds(1)) << i;
    pass(microseconds(5));
  }
}

TEST_F(CounterClockTest, ACounterThatGoesBackIsNotTrusted) {
  find_rate();
  count_ -= 4'000'000;  // On another processor.
  EXPECT_EQ(error().count(), 0);
  pass(microseconds(1));
  EXPECT_EQ(error().count(), 0);
}

}  // namespace
}  // namespace distrun
