#include "testsuites/harness/run/exit_status_verdict.h"

#include <csignal>

#include <gtest/gtest.h>

namespace distrun {
namespace {

RankFacts ended(ProcessEnd end, int order = 1) {
  return judged_by_exit_status({.end = end, .order = order});
}

AttemptResult result_of(std::vector<RankFacts> facts) {
  return judge({.needs = {.ranks = static_cast<int>(facts.size())}}, std::move(facts),
               /*interrupted=*/false);
}

TEST(ExitStatusVerdictTest, StatusZeroPasses) {
  const auto result = result_of({ended(ExitedWith{0}), ended(ExitedWith{0}, 2)});
  EXPECT_EQ(result.status, TestStatus::kPassed) << result.reason;
}

TEST(ExitStatusVerdictTest, AnotherStatusFails) {
  for (const int code : {1, 3, 71, 90, 127, 255}) {
    const auto result = result_of({ended(ExitedWith{0}), ended(ExitedWith{code}, 2)});
    EXPECT_EQ(result.status, TestStatus::kFailed);
    EXPECT_EQ(result.reason, "rank 1 failed: exit code " + std::to_string(code));
  }
}

TEST(ExitStatusVerdictTest, ASignalIsACrash) {
  const auto result = result_of({ended(KilledBy{SIGSEGV}), ended(ExitedWith{0}, 2)});
  EXPECT_EQ(result.status, TestStatus::kFailed);
  EXPECT_EQ(result.reason, "rank 0 crashed: signal SIGSEGV (11)");
}

TEST(ExitStatusVerdictTest, TheStatusesOfPyTorchSkip) {
  for (int code = 72; code <= 89; ++code) {
    const auto result = result_of({ended(ExitedWith{code}), ended(ExitedWith{code}, 2)});
    EXPECT_EQ(result.status, TestStatus::kSkipped) << code;
    EXPECT_EQ(result.reason.find("exit code " + std::to_string(code) + ": "), 0u) << result.reason;
  }
}

TEST(ExitStatusVerdictTest, ASkipOfSomeRanksFails) {
  const auto result = result_of({ended(ExitedWith{0}), ended(ExitedWith{77}, 2)});
  EXPECT_EQ(result.status, TestStatus::kFailed);
  EXPECT_EQ(result.reason.find("diverged"), 0u) << result.reason;
}

TEST(ExitStatusVerdictTest, AStatusThatDistrunCausedIsNoResult) {
  const RankFacts killed{.end = ExitedWith{0}, .was_ended = true};
  EXPECT_EQ(judged_by_exit_status(killed).assertions, 0);
  const RankFacts late{.end = ExitedWith{77}, .was_late = true};
  EXPECT_EQ(judged_by_exit_status(late).skip_reason, std::nullopt);
}

}  // namespace
}  // namespace distrun
