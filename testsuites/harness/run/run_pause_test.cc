#include "testsuites/harness/run/run_pause.h"

#include <gtest/gtest.h>

namespace distrun {
namespace {

class RunPauseTest : public ::testing::Test {
 protected:
  std::shared_ptr<RunPause> pause(std::chrono::milliseconds timeout = std::chrono::minutes(1)) {
    return std::make_shared<RunPause>(
        io_, [this] { return all_are_known_; }, timeout);
  }

  // Handles what can be handled now.
  void poll() {
    io_.restart();
    io_.poll();
  }

  boost::asio::io_context io_;
  bool all_are_known_ = false;
  int told_ = 0;
  const std::function<void()> on_paused_ = [this] { ++told_; };
};

TEST_F(RunPauseTest, IsToldFromTheLoopWhereAllAreKnown) {
  all_are_known_ = true;
  const auto its = pause();
  its->begin(on_paused_);
  EXPECT_TRUE(its->is_on());
  EXPECT_EQ(told_, 0) << "not before begin() has returned";
  poll();
  EXPECT_EQ(told_, 1);
  its->end();
  EXPECT_FALSE(its->is_on());
}

TEST_F(RunPauseTest, IsToldOnceWhenTheLastIsKnown) {
  const auto its = pause();
  its->begin(on_paused_);
  poll();
  its->look();
  poll();
  EXPECT_EQ(told_, 0);
  all_are_known_ = true;
  its->look();
  EXPECT_EQ(told_, 0) << "from the event loop";
  its->look();
  poll();
  EXPECT_EQ(told_, 1);
}

TEST_F(RunPauseTest, DoesNotWaitLongerThanItsTimeOut) {
  const auto its = pause(std::chrono::milliseconds(1));
  its->begin(on_paused_);
  io_.run_for(std::chrono::minutes(1));
  EXPECT_EQ(told_, 1);
}

TEST_F(RunPauseTest, MayBeginAgain) {
  all_are_known_ = true;
  const auto its = pause();
  for (int round = 1; round <= 2; ++round) {
    its->begin(on_paused_);
    poll();
    EXPECT_EQ(told_, round);
    its->end();
  }
}

TEST_F(RunPauseTest, NothingIsToldWhenItHasEndedOrIsGone) {
  for (const bool is_gone : {false, true}) {
    for (const bool is_seen : {false, true}) {
      SCOPED_TRACE(::testing::Message() << is_gone << is_seen);
      all_are_known_ = false;
      auto its = pause(std::chrono::milliseconds(1));
      its->begin(on_paused_);
      all_are_known_ = true;
      if (is_seen) its->look();
      its->end();
      if (is_gone) its.reset();
      io_.restart();
      io_.run_for(std::chrono::minutes(1));
      EXPECT_EQ(told_, 0);
    }
  }
}

TEST_F(RunPauseTest, NothingIsToldWhenItIsGoneWithoutAnEnd) {
  auto its = pause(std::chrono::milliseconds(1));
  its->begin(on_paused_);
  all_are_known_ = true;
  its->look();
  its.reset();
  io_.run_for(std::chrono::minutes(1));
  EXPECT_EQ(told_, 0);
}

}  // namespace
}  // namespace distrun
