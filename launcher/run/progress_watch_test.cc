#include "launcher/run/progress_watch.h"

#include <vector>

#include <boost/asio/post.hpp>
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

TEST(QuietTimeTest, SmallerMarkIsProgress) {
  QuietTime quiet(milliseconds(20), milliseconds(10));
  EXPECT_FALSE(quiet.is_over(kOtherMark, kWatchStart));
  EXPECT_FALSE(quiet.is_over(kFirstMark, kWatchStart + milliseconds(30)));
}

// The process was frozen, or the machine was asleep.
TEST(QuietTimeTest, GapBetweenReadingsCountsAsTwoPeriods) {
  QuietTime quiet(milliseconds(100), milliseconds(10));
  EXPECT_FALSE(quiet.is_over(kFirstMark, kWatchStart));
  EXPECT_FALSE(quiet.is_over(kFirstMark, kWatchStart + milliseconds(5000)));
  for (int i = 1; i < 8; ++i) {
    EXPECT_FALSE(quiet.is_over(kFirstMark, kWatchStart + milliseconds(5000 + 10 * i))) << i;
  }
  EXPECT_TRUE(quiet.is_over(kFirstMark, kWatchStart + milliseconds(5080)));
}

TEST(QuietTimeTest, RestartsWhileWorkersWaitForDistrun) {
  QuietTime quiet(milliseconds(20), milliseconds(10));
  EXPECT_FALSE(quiet.is_over(kFirstMark, kWatchStart));
  EXPECT_FALSE(quiet.is_over(kFirstMark, kWatchStart + milliseconds(10)));
  EXPECT_FALSE(quiet.is_over(std::nullopt, kWatchStart + milliseconds(20)));
  EXPECT_FALSE(quiet.is_over(kFirstMark, kWatchStart + milliseconds(30)));
  EXPECT_FALSE(quiet.is_over(kFirstMark, kWatchStart + milliseconds(40)));
  EXPECT_TRUE(quiet.is_over(kFirstMark, kWatchStart + milliseconds(50)));
}

TEST(ProgressWatchTest, ReportsQuietAndProgress) {
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

// The timer has expired when end() is called, and its handler still runs.
TEST(ProgressWatchTest, EndsEvenIfTheTimerHasExpired) {
  boost::asio::io_context io;
  int looks = 0;
  ProgressWatch watch(
      io, milliseconds(40),
      [&] {
        ++looks;
        return ProgressMark{};
      },
      [](bool) {});
  watch.begin();
  // Both timers have expired when the loop first looks; this handler runs first.
  boost::asio::steady_timer before(io, milliseconds(1));
  before.async_wait([&](boost::system::error_code) { watch.end(); });
  boost::asio::steady_timer both(io, milliseconds(30));
  both.wait();
  io.run_for(std::chrono::seconds(10));
  EXPECT_TRUE(io.stopped()) << "the watch goes on";
  EXPECT_EQ(looks, 1);
}

TEST(ProgressWatchTest, SuspensionEndsTheQuiet) {
  boost::asio::io_context io;
  std::vector<bool> told;
  ProgressWatch* itself = nullptr;
  ProgressWatch watch(
      io, milliseconds(40), [] { return ProgressMark{}; },
      [&](bool is_quiet) {
        told.push_back(is_quiet);
        if (told.size() == 1) boost::asio::post(io, [&] { itself->resume(); });
        if (told.size() == 3) itself->end();
      });
  itself = &watch;
  watch.begin();
  io.run();
  EXPECT_THAT(told, ElementsAre(true, false, true));
  watch.resume();  // Does nothing.
  EXPECT_EQ(told.size(), 3U);
}

}  // namespace
}  // namespace distrun
