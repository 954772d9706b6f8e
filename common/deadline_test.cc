#include "common/deadline.h"

#include <gtest/gtest.h>

namespace distrun {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

const Clock::time_point kBegin = Clock::time_point(std::chrono::hours(1));

TEST(DeadlineTest, IsTheTimeoutAfterTheStart) {
  EXPECT_EQ(deadline_after(milliseconds(0), kBegin), kBegin);
  EXPECT_EQ(deadline_after(milliseconds(20), kBegin), kBegin + milliseconds(20));
}

TEST(DeadlineTest, NegativeTimeoutEndsAtOnce) {
  EXPECT_EQ(deadline_after(milliseconds(-1), kBegin), kBegin);
  EXPECT_EQ(deadline_after(milliseconds::min(), kBegin), kBegin);
}

TEST(DeadlineTest, MoreThanAYearIsNever) {
  EXPECT_EQ(deadline_after(std::chrono::hours(24 * 366), kBegin), Clock::time_point::max());
  EXPECT_EQ(deadline_after(milliseconds::max(), kBegin), Clock::time_point::max());
}

TEST(DeadlineTest, IsPostponedByAPause) {
  EXPECT_EQ(postponed(kBegin, milliseconds(20)), kBegin + milliseconds(20));
  EXPECT_EQ(postponed(Clock::time_point::max(), milliseconds(20)), Clock::time_point::max());
  EXPECT_EQ(postponed(Clock::time_point::max() - milliseconds(1), milliseconds(20)),
            Clock::time_point::max());
}

}  // namespace
}  // namespace distrun
