#include "launcher/run/progress_watch.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distrun {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;

constexpr QuietTime::TimePoint kWatchStart{};
constexpr ProgressMark kFirstMark{1, 0, 0, 0}, kOtherMark{1, 0, 0, 7};

TEST(QuietTimeTest, IsOverWhenNoMarkHasDifferedForTheLimit) {
  QuietTime quiet(milliseconds(100), milliseconds(10));
  for (int t = 0; t < 100; t += 10) {
    EXPECT_FALSE(quiet.is_over(kFirstMark, kWatchStart + milliseconds(t))) << t;
  }
  EXPECT_TRUE(quiet.is_over(kFirstMark, kWatchStart + milliseconds(100)));
  EXPECT_FALSE(quiet.is_over(kOtherMark, kWatchStart + milliseconds(110)));
}

TEST(QuietTimeTest, ASmallerMarkIsProgressToo) {
  QuietTime quiet(milliseconds(20), milliseconds(10));
  EXPECT_FALSE(quiet.is_over(kOtherMark, kWatchStart));
  EXPECT_FALSE(quiet.is_over(kFirstMark, kWatchStart + milliseconds(30)));
}

// distrun itself was stopped, or the machine was asleep: nobody read the workers' output meanwhile.
TEST(QuietTimeTest, AGapBetweenTheReadingsDoesNotCount) {
  QuietTime quiet(milliseconds(100), milliseconds(10));
  EXPECT_FALSE(quiet.is_over(kFirstMark, kWatchStart));
  EXPECT_FALSE(quiet.is_over(kFirstMark, kWatchStart + milliseconds(5000)));
  for (int i = 1; i < 4; ++i) {
    EXPECT_FALSE(quiet.is_over(kFirstMark, kWatchStart + milliseconds(5000 + 10 * i)));
  }
  EXPECT_TRUE(quiet.is_over(kFirstMark, kWatchStart + milliseconds(5040)));
}

TEST(QuietTimeTest, BeginsAnewWhileWorkersWaitForDistrun) {
  QuietTime quiet(milliseconds(20), milliseconds(10));
  EXPECT_FALSE(quiet.is_over(kFirstMark, kWatchStart));
  EXPECT_FALSE(quiet.is_over(kFirstMark, kWatchStart + milliseconds(10)));
  EXPECT_FALSE(quiet.is_over(std::nullopt, kWatchStart + milliseconds(20)));
  EXPECT_FALSE(quiet.is_over(kFirstMark, kWatchStart + milliseconds(30)));
  EXPECT_FALSE(quiet.is_over(kFirstMark, kWatchStart + milliseconds(40)));
  EXPECT_TRUE(quiet.is_over(kFirstMark, kWatchStart + milliseconds(50)));
}

TEST(ProgressWatchTest, TellsWhenItGetsQuietAndWhenItGoesOn) {
  boost::asio::io_context io;
  std::vector<bool> told;
  ProgressMark mark = kFirstMark;
  ProgressWatch* itself = nullptr;
  ProgressWatch watch(
      io, milliseconds(40), [&] { return mark; },
      [&](bool is_quiet) {
        told.push_back(is_quiet);
        mark = kOtherMark;
        if (told.size() == 2) itself->end();
      });
  itself = &watch;
  watch.begin();
  io.run();  // Ends with the watch.
  EXPECT_THAT(told, ElementsAre(true, false));
}

}  // namespace
}  // namespace distrun
