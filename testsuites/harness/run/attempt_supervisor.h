// AttemptSupervisor decides when to ask the ranks of an attempt for stack traces, and when to kill
// them.
//
//     AttemptSupervisor supervisor({.timeout = 60s}, /*ranks=*/4, now);
//     for (const auto& action : supervisor.step(RankSeenToEnd{2, RankOutcome::kFailed}, now)) …
//     timer.expires_at(*supervisor.next_deadline());
//
//     running ──all ended───────────────────────────────────────────────────▶ finished
//        │ time-out; or a rank failed or skipped and the                         ▲
//        │ grace for the others has passed; or an interrupt                      │
//        └──▶ asking ──all have answered, or a time limit passed──▶ ending ──────┘
//
// Results after the question do not count: a rank that has answered does not continue. An interrupt
// while asking leads to ending at once.
//
// When a rank fails or skips, its peers, which may wait for it, get a short grace instead of the
// whole timeout. Stopped or deadlocked ranks cannot answer, and SIGKILL may take long, so both
// phases have time limits. Pure.
#pragma once

#include <chrono>
#include <optional>
#include <variant>
#include <vector>

#include "testsuites/harness/run/verdict.h"

namespace distrun {

// Events.
struct RankSeenToEnd {  // Or could not be started.
  int rank;
  RankOutcome outcome;
};
struct RankAnswered {
  int rank;
};
struct AttemptInterrupted {};
struct AttemptContinued {  // Ranks or runner were suspended for this time.
  std::chrono::steady_clock::duration suspended_for;
};
struct AttemptTick {};
using AttemptEvent =
    std::variant<RankSeenToEnd, RankAnswered, AttemptInterrupted, AttemptContinued, AttemptTick>;

// Actions, in this order.
struct AskWhere {  // Ask for stack traces.
  int rank;
};
struct EndRank {
  int rank;
};
struct FinishAttempt {  // Ranks that have not ended are given up.
  bool interrupted;
};
using AttemptAction = std::variant<AskWhere, EndRank, FinishAttempt>;

class AttemptSupervisor {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  struct Options {
    std::chrono::milliseconds timeout = std::chrono::seconds(60);
    std::chrono::milliseconds grace = std::chrono::seconds(1);       // For peers, after a failure.
    std::chrono::milliseconds skip_grace = std::chrono::seconds(5);  // For peers, after a skip.
    std::chrono::milliseconds answer = std::chrono::seconds(3);      // To answer AskWhere.
    std::chrono::milliseconds ending = std::chrono::seconds(20);     // For SIGKILL to work.
    // The rank under a debugger: no deadline applies until it ends.
    std::optional<int> looked_at = {};
  };

  AttemptSupervisor(const Options& options, int ranks, TimePoint now);

  std::vector<AttemptAction> step(const AttemptEvent& event, TimePoint now);
  std::optional<TimePoint> next_deadline() const { return deadline_; }

 private:
  enum class Phase { kRunning, kAsking, kEnding, kFinished };
  struct Rank {
    bool ended = false;
    bool asked = false;  // Has neither answered nor ended.
  };

  void handle(const RankSeenToEnd& event, TimePoint now);
  void handle(const RankAnswered& event, TimePoint now);
  void handle(const AttemptInterrupted& event, TimePoint now);
  void handle(const AttemptContinued& event, TimePoint now);
  void handle(const AttemptTick& event, TimePoint now);
  void ask(TimePoint now);
  void end_all(TimePoint now);
  void finish();
  bool all_have_ended() const;
  bool is_looked_at() const;

  Options options_;
  Phase phase_ = Phase::kRunning;
  std::vector<Rank> ranks_;
  RankOutcome worst_ = RankOutcome::kPassed;
  bool interrupted_ = false;
  std::optional<TimePoint> deadline_;
  std::vector<AttemptAction> actions_;
};

}  // namespace distrun
