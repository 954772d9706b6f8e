#include "launcher/nodes/heartbeat.h"

#include <gtest/gtest.h>

namespace distrun {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Finding = Heartbeat::Finding;

class HeartbeatTest : public ::testing::Test {
 protected:
  // Looks every second, as many times, and returns the last finding.
  Finding pass(int times) {
    Finding last = Finding::kNothing;
    for (int i = 0; i < times; ++i) last = heartbeat_.look(now_ += seconds(1));
    return last;
  }

  Heartbeat::TimePoint now_{seconds(1000)};
  Heartbeat heartbeat_{seconds(5), now_};
};

TEST_F(HeartbeatTest, WhoIsHeardIsNeitherSilentNorLost) {
  for (int time = 0; time < 100; ++time) {
    heartbeat_.heard(now_);
    EXPECT_EQ(pass(9), Finding::kNothing);
  }
}

TEST_F(HeartbeatTest, SilenceIsFoundOnceAndLossFollows) {
  EXPECT_EQ(pass(9), Finding::kNothing);
  EXPECT_EQ(pass(1), Finding::kSilent);
  EXPECT_EQ(pass(4), Finding::kNothing);
  EXPECT_EQ(pass(1), Finding::kLost);
  EXPECT_EQ(heartbeat_.silence_text(), "10 s");
  EXPECT_EQ(heartbeat_.loss_text(), "it has been silent for 15 s");
}

TEST_F(HeartbeatTest, WhoAnswersAgainIsBack) {
  EXPECT_EQ(pass(10), Finding::kSilent);
  heartbeat_.heard(now_);
  EXPECT_EQ(pass(1), Finding::kBack);
  EXPECT_EQ(pass(1), Finding::kNothing);
  EXPECT_EQ(pass(8), Finding::kSilent);
}

TEST_F(HeartbeatTest, TheTimeInWhichThisProcessWasStoppedDoesNotCount) {
  now_ += seconds(3600);
  EXPECT_EQ(pass(1), Finding::kNothing);
  EXPECT_EQ(pass(9), Finding::kNothing);
  EXPECT_EQ(pass(1), Finding::kSilent);
}

TEST_F(HeartbeatTest, ThisProcessWasStoppedIfItDidNotLook) {
  EXPECT_FALSE(heartbeat_.was_stopped(now_ + seconds(14))) << "others wait for three intervals";
  now_ += seconds(59);
  constexpr const char* kText =
      "it did nothing for 60.0 s (was it stopped?), and the other nodes ended the run";
  EXPECT_TRUE(heartbeat_.was_stopped(now_ + seconds(1)));
  EXPECT_EQ(heartbeat_.own_loss_text(now_ + seconds(1)), kText);
  pass(1);
  EXPECT_TRUE(heartbeat_.was_stopped(now_)) << "the connection's end may be read later";
  EXPECT_EQ(heartbeat_.own_loss_text(now_), kText);
  pass(5);
  EXPECT_FALSE(heartbeat_.was_stopped(now_));
}

TEST_F(HeartbeatTest, WithoutAnIntervalNothingIsFound) {
  heartbeat_ = Heartbeat(milliseconds(0), now_);
  EXPECT_EQ(pass(1000), Finding::kNothing);
  EXPECT_FALSE(heartbeat_.was_stopped(now_ + seconds(1000)));
}

TEST(HeartbeatPauseTest, LooksAreMoreFrequentThanFindings) {
  EXPECT_EQ(pause_of(seconds(5), seconds(1)), seconds(1));
  EXPECT_EQ(pause_of(milliseconds(200), seconds(1)), milliseconds(100));
  EXPECT_EQ(pause_of(milliseconds(0), seconds(1)), seconds(1));
  EXPECT_EQ(pause_of(milliseconds(1), seconds(1)), milliseconds(1));
}

}  // namespace
}  // namespace distrun
