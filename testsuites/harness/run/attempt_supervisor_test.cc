#include "testsuites/harness/run/attempt_supervisor.h"

#include <array>
#include <random>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distrun {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using enum RankOutcome;

std::string text_of(const AttemptAction& action) {
  if (const auto* ask = std::get_if<AskWhere>(&action)) return fmt::format("ask {}", ask->rank);
  if (const auto* end = std::get_if<EndRank>(&action)) return fmt::format("end {}", end->rank);
  return std::get<FinishAttempt>(action).interrupted ? "finish interrupted" : "finish";
}

class AttemptSupervisorTest : public ::testing::Test {
 protected:
  const AttemptSupervisor::TimePoint start_{};
  AttemptSupervisor supervisor_{{.timeout = seconds(60), .answer = seconds(1)}, 3, start_};

  std::vector<std::string> step(const AttemptEvent& event, milliseconds at = milliseconds(1)) {
    std::vector<std::string> texts;
    for (const auto& action : supervisor_.step(event, start_ + at))
      texts.push_back(text_of(action));
    return texts;
  }
};

TEST_F(AttemptSupervisorTest, FinishesWhenAllRanksHaveEnded) {
  EXPECT_THAT(step(RankSeenToEnd{0, kPassed}), IsEmpty());
  EXPECT_THAT(step(RankSeenToEnd{2, kPassed}), IsEmpty());
  EXPECT_EQ(supervisor_.next_deadline(), start_ + seconds(60));
  EXPECT_THAT(step(RankSeenToEnd{1, kPassed}), ElementsAre("finish"));
  EXPECT_EQ(supervisor_.next_deadline(), std::nullopt);
}

TEST_F(AttemptSupervisorTest, AHugeTimeOutDoesNotOverflow) {
  const AttemptSupervisor patient({.timeout = milliseconds::max()}, 1,
                                  start_ + std::chrono::hours(1));
  EXPECT_EQ(patient.next_deadline(), AttemptSupervisor::TimePoint::max());
}

TEST_F(AttemptSupervisorTest, PeersOfASkipHaveSecondsToSkipToo) {
  step(RankSeenToEnd{1, kSkipped}, seconds(1));
  EXPECT_EQ(supervisor_.next_deadline(), start_ + seconds(6));
  step(RankSeenToEnd{0, kSkipped}, seconds(2));
  EXPECT_EQ(supervisor_.next_deadline(), start_ + seconds(6)) << "counted from the first";
  EXPECT_THAT(step(AttemptTick{}, seconds(6)), ElementsAre("ask 2"));
}

TEST_F(AttemptSupervisorTest, AFailureAfterASkipShortensTheGrace) {
  step(RankSeenToEnd{1, kSkipped}, seconds(1));
  step(RankSeenToEnd{0, kFailed}, seconds(2));
  EXPECT_EQ(supervisor_.next_deadline(), start_ + seconds(3));
}

TEST_F(AttemptSupervisorTest, HasNoDeadlineWhileARankIsDebugged) {
  supervisor_ = AttemptSupervisor({.timeout = seconds(60), .looked_at = 1}, 3, start_);
  EXPECT_EQ(supervisor_.next_deadline(), std::nullopt);
  EXPECT_THAT(step(RankSeenToEnd{0, kFailed}, seconds(100)), IsEmpty());
  EXPECT_EQ(supervisor_.next_deadline(), std::nullopt);
  EXPECT_THAT(step(RankSeenToEnd{1, kPassed}, seconds(200)), IsEmpty());
  EXPECT_EQ(supervisor_.next_deadline(), start_ + seconds(201)) << "the grace for rank 2";
}

TEST_F(AttemptSupervisorTest, TheTimeOutStartsWhenTheDebuggedRankEnds) {
  supervisor_ = AttemptSupervisor({.timeout = seconds(60), .looked_at = 1}, 3, start_);
  step(RankSeenToEnd{1, kPassed}, seconds(200));
  EXPECT_EQ(supervisor_.next_deadline(), start_ + seconds(260));
}

TEST_F(AttemptSupervisorTest, TimeSuspendedDoesNotCount) {
  EXPECT_THAT(step(AttemptContinued{seconds(7)}), IsEmpty());
  EXPECT_EQ(supervisor_.next_deadline(), start_ + seconds(67));
  EXPECT_THAT(step(RankSeenToEnd{0, kFailed}, seconds(66) + milliseconds(500)), IsEmpty());
  EXPECT_EQ(supervisor_.next_deadline(), start_ + seconds(67)) << "the time-out comes first";
}

TEST_F(AttemptSupervisorTest, AsksAndEndsPeersOfAFailureAfterAGrace) {
  EXPECT_THAT(step(RankSeenToEnd{1, kFailed}, milliseconds(100)), IsEmpty());
  EXPECT_EQ(supervisor_.next_deadline(), start_ + milliseconds(1100));
  EXPECT_THAT(step(AttemptTick{}, milliseconds(1099)), IsEmpty());
  EXPECT_THAT(step(AttemptTick{}, milliseconds(1100)), ElementsAre("ask 0", "ask 2"));
  EXPECT_THAT(step(RankAnswered{0}, milliseconds(1101)), IsEmpty());
  EXPECT_THAT(step(RankAnswered{2}, milliseconds(1102)), ElementsAre("end 0", "end 2"));
  EXPECT_THAT(step(RankSeenToEnd{0, kFailed}, milliseconds(1103)), IsEmpty());
  EXPECT_THAT(step(RankSeenToEnd{2, kFailed}, milliseconds(1104)), ElementsAre("finish"));
}

TEST_F(AttemptSupervisorTest, ASecondFailureDoesNotExtendTheGrace) {
  step(RankSeenToEnd{1, kFailed}, milliseconds(100));
  step(RankSeenToEnd{2, kFailed}, milliseconds(1000));
  EXPECT_THAT(step(AttemptTick{}, milliseconds(1100)), ElementsAre("ask 0"));
}

TEST_F(AttemptSupervisorTest, AsksAndEndsAllAfterTheTimeOut) {
  step(RankSeenToEnd{1, kPassed}, milliseconds(100));
  EXPECT_THAT(step(AttemptTick{}, seconds(59)), IsEmpty());
  EXPECT_THAT(step(AttemptTick{}, seconds(60)), ElementsAre("ask 0", "ask 2"));
  EXPECT_THAT(step(AttemptTick{}, milliseconds(60'999)), IsEmpty());
  EXPECT_THAT(step(AttemptTick{}, seconds(61)), ElementsAre("end 0", "end 2"));
  step(RankSeenToEnd{0, kFailed}, seconds(61));
  EXPECT_THAT(step(RankSeenToEnd{2, kFailed}, seconds(61)), ElementsAre("finish"));
}

TEST_F(AttemptSupervisorTest, AFailureDoesNotExtendTheTimeOut) {
  step(RankSeenToEnd{1, kFailed}, milliseconds(59'900));
  EXPECT_THAT(step(AttemptTick{}, seconds(60)), ElementsAre("ask 0", "ask 2"));
}

TEST_F(AttemptSupervisorTest, DoesNotWaitForAnAnswerOfAnEndedRank) {
  step(AttemptTick{}, seconds(60));
  step(RankAnswered{0}, seconds(60));
  step(RankSeenToEnd{1, kPassed}, seconds(60));
  EXPECT_THAT(step(RankSeenToEnd{2, kPassed}, seconds(60)), ElementsAre("end 0"));
}

TEST_F(AttemptSupervisorTest, GivesUpRanksThatCannotBeKilled) {
  step(AttemptTick{}, seconds(60));
  step(AttemptTick{}, seconds(61));
  EXPECT_THAT(step(AttemptTick{}, seconds(80)), IsEmpty());
  EXPECT_THAT(step(AttemptTick{}, seconds(81)), ElementsAre("finish"));
}

TEST_F(AttemptSupervisorTest, AnInterruptAsksAllRanksAndASecondEndsThem) {
  step(RankSeenToEnd{1, kPassed});
  EXPECT_THAT(step(AttemptInterrupted{}), ElementsAre("ask 0", "ask 2"));
  EXPECT_THAT(step(AttemptInterrupted{}), ElementsAre("end 0", "end 2"));
  EXPECT_THAT(step(AttemptInterrupted{}), IsEmpty());
  step(RankSeenToEnd{0, kFailed});
  EXPECT_THAT(step(RankSeenToEnd{2, kFailed}), ElementsAre("finish interrupted"));
}

TEST_F(AttemptSupervisorTest, AFailureWhileEndingDoesNotMoveTheDeadline) {
  step(AttemptInterrupted{});
  step(AttemptInterrupted{});
  step(RankSeenToEnd{0, kFailed});
  EXPECT_EQ(supervisor_.next_deadline(), start_ + milliseconds(20'001));
}

TEST_F(AttemptSupervisorTest, IgnoresUnexpectedAnswers) {
  EXPECT_THAT(step(RankAnswered{0}), IsEmpty());
  step(AttemptInterrupted{});
  step(AttemptInterrupted{});
  EXPECT_THAT(step(RankAnswered{0}), IsEmpty());
}

TEST_F(AttemptSupervisorTest, IgnoresEventsAfterTheEnd) {
  for (const int rank : {0, 1, 2}) step(RankSeenToEnd{rank, kPassed});
  const std::vector<AttemptEvent> late = {RankSeenToEnd{0, kFailed}, RankAnswered{0},
                                          AttemptInterrupted{}, AttemptContinued{seconds(1)},
                                          AttemptTick{}};
  for (const AttemptEvent& event : late) EXPECT_THAT(step(event), IsEmpty());
  EXPECT_EQ(supervisor_.next_deadline(), std::nullopt);
}

// In any order of events, finishes exactly once, in bounded time.
TEST(AttemptSupervisorRandomTest, FinishesOnceInBoundedTime) {
  for (unsigned seed = 0; seed < 2000; ++seed) {
    std::mt19937 random(seed);
    const int ranks = 1 + static_cast<int>(random() % 5);
    auto now = AttemptSupervisor::TimePoint{};
    const auto start = now;
    AttemptSupervisor supervisor({.timeout = seconds(10)}, ranks, now);
    std::vector<bool> ended(static_cast<std::size_t>(ranks));
    int finished = 0;
    for (int i = 0; i < 200 && supervisor.next_deadline(); ++i) {
      const int rank = static_cast<int>(random() % static_cast<unsigned>(ranks));
      AttemptEvent event = AttemptTick{};
      switch (random() % 12) {
        case 0:
          if (!ended[static_cast<std::size_t>(rank)])
            event = RankSeenToEnd{rank, std::array{kPassed, kSkipped, kFailed}[random() % 3]};
          ended[static_cast<std::size_t>(rank)] = true;
          break;
        case 1:
          event = RankAnswered{rank};
          break;
        case 2:
          if (random() % 20 == 0) event = AttemptInterrupted{};
          break;
        default:
          now = std::max(now, *supervisor.next_deadline());
      }
      for (const auto& action : supervisor.step(event, now)) {
        finished += std::holds_alternative<FinishAttempt>(action) ? 1 : 0;
        if (const auto* end = std::get_if<EndRank>(&action)) {
          EXPECT_FALSE(ended[static_cast<std::size_t>(end->rank)]) << seed;
        }
      }
    }
    EXPECT_EQ(finished, 1) << seed;
    EXPECT_LE(now - start, seconds(10 + 1 + 3 + 20)) << seed;
  }
}

}  // namespace
}  // namespace distrun
