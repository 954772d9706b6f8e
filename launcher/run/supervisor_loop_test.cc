#include "launcher/run/supervisor_loop.h"

#include <csignal>
#include <string>
#include <type_traits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distrun {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

const LocalRank kZero(0), kOne(1);

std::string text_of(const Action& action) {
  return std::visit(
      [](const auto& what) -> std::string {
        using What = std::decay_t<decltype(what)>;
        if constexpr (std::is_same_v<What, Spawn>) {
          return "spawn " + std::to_string(what.worker.value());
        }
        if constexpr (std::is_same_v<What, SendSignal>) {
          return "signal " + std::to_string(what.signal);
        }
        if constexpr (std::is_same_v<What, BeginAttempt>) return "begin";
        if constexpr (std::is_same_v<What, Finish>) return "finish";
        return "other";
      },
      action);
}

class SupervisorLoopTest : public ::testing::Test {
 protected:
  boost::asio::io_context io_;
  std::vector<std::string> performed_;
  std::function<void(const Action&)> while_performing_ = [](const Action&) {};
  SupervisorLoop loop_{
      io_, {.workers = 2, .shutdown_timeout = milliseconds(1)}, [this](const Actions& actions) {
        for (const Action& action : actions) {
          performed_.push_back(text_of(action));
          while_performing_(action);
        }
        if (!actions.empty()) performed_.emplace_back(".");
      }};
};

TEST_F(SupervisorLoopTest, PerformsActionsOfStartAndEvents) {
  loop_.start();
  loop_.happened(Spawned{kZero});
  EXPECT_THAT(performed_, ElementsAre("begin", "spawn 0", ".", "spawn 1", "."));
}

TEST_F(SupervisorLoopTest, EventsWaitWhileTheLoopIsHeld) {
  loop_.start();
  performed_.clear();
  loop_.hold();
  loop_.hold();
  loop_.happened(Spawned{kZero});
  loop_.release();
  EXPECT_THAT(performed_, IsEmpty());
  loop_.release();
  EXPECT_THAT(performed_, ElementsAre("spawn 1", "."));
}

// Reading stacks may hold the loop for seconds.
TEST_F(SupervisorLoopTest, EventsHaveTheTimeWhenTheyHappened) {
  TimePoint now{};
  std::vector<std::string> performed;
  SupervisorLoop loop(
      io_, {.workers = 1, .shutdown_timeout = minutes(1)},
      [&](const Actions& actions) {
        for (const Action& action : actions) performed.push_back(text_of(action));
      },
      [&] { return now; });
  loop.start();
  loop.happened(Spawned{kZero});
  loop.happened(Interrupted{SIGTERM});
  loop.hold();
  loop.happened(Interrupted{SIGTERM});  // To the process group: the same signal.
  now += minutes(1) / 2;
  performed.clear();
  loop.release();
  EXPECT_THAT(performed, IsEmpty());
}

TEST_F(SupervisorLoopTest, EventWaitsUntilTheFirstActionsArePerformed) {
  while_performing_ = [this](const Action& action) {
    const auto* spawn = std::get_if<Spawn>(&action);
    if (spawn == nullptr || spawn->worker != kZero) return;
    loop_.happened(Spawned{kZero});
    performed_.emplace_back("still spawning");
  };
  loop_.start();
  EXPECT_THAT(performed_, ElementsAre("begin", "spawn 0", "still spawning", ".", "spawn 1", "."));
}

TEST_F(SupervisorLoopTest, EventWaitsUntilEarlierActionsArePerformed) {
  loop_.start();
  performed_.clear();
  // A signal arrives while worker 1 starts.
  while_performing_ = [this](const Action& action) {
    if (!std::holds_alternative<Spawn>(action)) return;
    loop_.happened(Spawned{kOne});
    loop_.happened(Interrupted{SIGINT});
    performed_.emplace_back("still spawning");
  };
  loop_.happened(Spawned{kZero});
  EXPECT_THAT(performed_,
              ElementsAre("spawn 1", "still spawning", ".", "other", "signal 2", "signal 2", "."));
}

TEST_F(SupervisorLoopTest, CallsTheSupervisorAtDeadlines) {
  loop_.start();
  loop_.happened(Spawned{kZero});
  loop_.happened(Spawned{kOne});
  loop_.happened(Interrupted{SIGINT});
  performed_.clear();
  while_performing_ = [this](const Action&) { io_.stop(); };
  io_.run_for(minutes(1));
  EXPECT_THAT(performed_, ElementsAre("signal 9", "signal 9", "."));
}

TEST_F(SupervisorLoopTest, IgnoresEventsAfterEnd) {
  loop_.start();
  loop_.happened(Spawned{kZero});
  loop_.happened(Spawned{kOne});
  performed_.clear();
  loop_.end();
  loop_.happened(Interrupted{SIGINT});
  EXPECT_THAT(performed_, IsEmpty());
}

TEST_F(SupervisorLoopTest, EndCancelsTheDeadline) {
  SupervisorLoop loop(io_, {.workers = 1, .shutdown_timeout = std::chrono::hours(1)},
                      [](const Actions&) {});
  loop.start();
  loop.happened(Spawned{kZero});
  loop.happened(Interrupted{SIGINT});
  io_.poll();
  EXPECT_FALSE(io_.stopped()) << "there is a deadline";
  loop.end();
  io_.poll();
  EXPECT_TRUE(io_.stopped());
}

TEST_F(SupervisorLoopTest, SetsNoDeadlineAfterEnd) {
  SupervisorLoop* its = nullptr;
  SupervisorLoop loop(io_, {.workers = 1, .shutdown_timeout = std::chrono::hours(1)},
                      [&its](const Actions& actions) {
                        for (const Action& action : actions) {
                          if (std::holds_alternative<SendSignal>(action)) its->end();
                        }
                      });
  its = &loop;
  loop.start();
  loop.happened(Spawned{kZero});
  loop.happened(Interrupted{SIGINT});
  io_.poll();
  EXPECT_TRUE(io_.stopped());
}

TEST_F(SupervisorLoopTest, EndMayBeCalledWhileActionsArePerformed) {
  loop_.start();
  performed_.clear();
  while_performing_ = [this](const Action&) {
    loop_.happened(Spawned{kOne});
    loop_.happened(Interrupted{SIGINT});
    loop_.end();
  };
  loop_.happened(Spawned{kZero});
  EXPECT_THAT(performed_, ElementsAre("spawn 1", "."));
}

}  // namespace
}  // namespace distrun
