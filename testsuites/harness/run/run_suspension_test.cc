#include "testsuites/harness/run/run_suspension.h"

#include <gtest/gtest.h>

namespace distrun {
namespace {

class RunSuspensionTest : public ::testing::Test {
 protected:
  std::shared_ptr<RunSuspension> suspension(
      std::chrono::milliseconds timeout = std::chrono::minutes(1)) {
    return std::make_shared<RunSuspension>(
        io_, [this] { return all_are_known_; }, timeout);
  }

  // Runs the handlers that are ready.
  void poll() {
    io_.restart();
    io_.poll();
  }

  boost::asio::io_context io_;
  bool all_are_known_ = false;
  int told_ = 0;
  const std::function<void()> on_suspended_ = [this] { ++told_; };
};

TEST_F(RunSuspensionTest, CallsBackFromTheLoopIfAllRanksAreKnown) {
  all_are_known_ = true;
  const auto its = suspension();
  its->begin(on_suspended_);
  EXPECT_TRUE(its->is_on());
  EXPECT_EQ(told_, 0) << "not before begin() has returned";
  poll();
  EXPECT_EQ(told_, 1);
  its->end();
  EXPECT_FALSE(its->is_on());
}

TEST_F(RunSuspensionTest, CallsBackOnceWhenTheLastRankIsKnown) {
  const auto its = suspension();
  its->begin(on_suspended_);
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

TEST_F(RunSuspensionTest, CallsBackAfterTheTimeOut) {
  const auto its = suspension(std::chrono::milliseconds(1));
  its->begin(on_suspended_);
  io_.run_for(std::chrono::minutes(1));
  EXPECT_EQ(told_, 1);
}

TEST_F(RunSuspensionTest, CanBeginAgain) {
  all_are_known_ = true;
  const auto its = suspension();
  for (int round = 1; round <= 2; ++round) {
    its->begin(on_suspended_);
    poll();
    EXPECT_EQ(told_, round);
    its->end();
  }
}

TEST_F(RunSuspensionTest, CallsNothingBackAfterEnd) {
  for (const bool is_gone : {false, true}) {
    for (const bool is_seen : {false, true}) {
      SCOPED_TRACE(::testing::Message() << is_gone << is_seen);
      all_are_known_ = false;
      auto its = suspension(std::chrono::milliseconds(1));
      its->begin(on_suspended_);
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

TEST_F(RunSuspensionTest, CallsNothingBackAfterDestruction) {
  auto its = suspension(std::chrono::milliseconds(1));
  its->begin(on_suspended_);
  all_are_known_ = true;
  its->look();
  its.reset();
  io_.run_for(std::chrono::minutes(1));
  EXPECT_EQ(told_, 0);
}

}  // namespace
}  // namespace distrun
