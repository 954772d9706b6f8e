#include "launcher/nodes/clock_offset.h"

#include <random>

#include <gtest/gtest.h>

namespace distrun {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr OperationTime kStart{hours(500'000)};

// An answer at `time` of a clock that is `ahead`. The question takes `there`, the answer `back`.
ClockOffset::Answer answer_at(OperationTime time, nanoseconds ahead, nanoseconds there,
                              nanoseconds back) {
  return {.told = time - back + ahead, .answered = time, .round_trip = there + back};
}

TEST(ClockOffsetTest, IsUnknownBeforeAnAnswer) { EXPECT_FALSE(ClockOffset().estimate(kStart)); }

TEST(ClockOffsetTest, IsExactIfBothWaysTakeTheSameTime) {
  for (const nanoseconds ahead : {nanoseconds(hours(2)), nanoseconds(-milliseconds(3))}) {
    ClockOffset offset;
    offset.add(answer_at(kStart, ahead, microseconds(50), microseconds(50)));
    const auto estimate = offset.estimate(kStart);
    ASSERT_TRUE(estimate);
    EXPECT_EQ(estimate->offset, ahead);
    EXPECT_EQ(estimate->error, microseconds(50));
  }
}

TEST(ClockOffsetTest, TheErrorCoversWaysOfDifferentLength) {
  std::mt19937 random(1);
  std::exponential_distribution<double> delay(1.0 / 200);  // Microseconds.
  ClockOffset offset;
  for (int i = 0; i < 1000; ++i) {
    const auto way = [&] { return microseconds(20 + static_cast<int>(delay(random))); };
    const OperationTime now = kStart + i * milliseconds(100);
    const auto there = way(), back = way();
    offset.add(answer_at(now, seconds(7), there, back));
    const auto estimate = offset.estimate(now);
    ASSERT_TRUE(estimate);
    EXPECT_LE(std::chrono::abs(estimate->offset - seconds(7)), estimate->error);
  }
}

TEST(ClockOffsetTest, PrefersTheFastestAnswer) {
  ClockOffset offset;
  offset.add(answer_at(kStart, seconds(1), milliseconds(1), milliseconds(90)));
  offset.add(answer_at(kStart, seconds(1), microseconds(100), microseconds(100)));
  offset.add(answer_at(kStart, seconds(1), milliseconds(90), milliseconds(1)));
  EXPECT_EQ(offset.estimate(kStart)->offset, seconds(1));
}

TEST(ClockOffsetTest, FollowsAClockThatDrifts) {
  ClockOffset offset;
  for (int i = 0; i < 600; ++i) {  // Ten minutes, in which it drifts by 30 ms.
    const OperationTime now = kStart + i * seconds(1);
    const nanoseconds ahead = i * microseconds(50);
    offset.add(answer_at(now, ahead, microseconds(100), microseconds(60)));
    const auto estimate = offset.estimate(now);
    ASSERT_TRUE(estimate);
    EXPECT_LE(std::chrono::abs(estimate->offset - ahead), estimate->error);
    EXPECT_LT(estimate->error, milliseconds(1));
  }
}

TEST(ClockOffsetTest, FollowsAClockThatSomebodySets) {
  ClockOffset offset;
  offset.add(answer_at(kStart, seconds(1), microseconds(5), microseconds(5)));
  const OperationTime later = kStart + seconds(1);
  offset.add(answer_at(later, seconds(2), milliseconds(1), milliseconds(1)));
  EXPECT_EQ(offset.estimate(later)->offset, seconds(2));
}

TEST(ClockOffsetTest, TheErrorGrowsWithoutAnswers) {
  ClockOffset offset;
  offset.add(answer_at(kStart, seconds(1), microseconds(1), microseconds(1)));
  EXPECT_EQ(offset.estimate(kStart + seconds(10))->error, microseconds(1) + milliseconds(1));
}

}  // namespace
}  // namespace distrun
