// AttemptSupervisor decides when the ranks of one attempt are asked where they stand and ended.
//
//     AttemptSupervisor supervisor({.timeout = 60s}, /*ranks=*/4, now);
//     for (const auto& action : supervisor.step(RankSeenToEnd{2, RankOutcome::kFailed}, now)) …
//     timer.expires_at(*supervisor.next_deadline());
//
//     running ──all have ended──────────────────────────────────────────────▶ finished
//        │ time-out, or a rank ended as a failure, or skipped,                    ▲
//        │ and the grace for the others is over; or an interrupt                  │
//        └──▶ asking ──all asked have answered, or some time is over──▶ ending ───┘
//
// Who is asked has had its time: what it does then counts no more, for the question itself may have
// woken it up.  An interrupt while it is asked ends it at once.
//
// No test waits for its time-out because another rank has failed, or has skipped what it waits for.
// A rank that is stopped, or whose threads hold every lock, does not answer: asking is bounded, and
// so is ending.  Pure.
#pragma once

#include <chrono>
#include <optional>
#include <variant>
#include <vector>

#include "testsuites/harness/run/verdict.h"

namespace distrun {

// Events.
struct RankSeenToEnd {  // Or not to have been started.
  int rank;
  RankOutcome outcome;
};
struct RankAnswered {
  int rank;
};
struct AttemptInterrupted {};
struct AttemptContinued {  // After its ranks were stopped.
  std::chrono::steady_clock::duration suspended_for;
};
struct AttemptTick {};
using AttemptEvent =
    std::variant<RankSeenToEnd, RankAnswered, AttemptInterrupted, AttemptContinued, AttemptTick>;

// Actions, in this order.
struct AskWhere {  // Its time is over.
  int rank;
};
struct EndRank {
  int rank;
};
struct FinishAttempt {  // Who has not ended by now never will.
  bool interrupted;
};
using AttemptAction = std::variant<AskWhere, EndRank, FinishAttempt>;

class AttemptSupervisor {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  struct Options {
    std::chrono::milliseconds timeout = std::chrono::seconds(60);
    std::chrono::milliseconds grace = std::chrono::seconds(1);       // For the peers of a failure.
    std::chrono::milliseconds skip_grace = std::chrono::seconds(5);  // To skip, too.
    std::chrono::milliseconds answer = std::chrono::seconds(1);      // To say where one stands.
    std::chrono::milliseconds ending = std::chrono::seconds(20);     // What SIGKILL may take.
    // The rank under a debugger: no deadline before it ends.
    std::optional<int> looked_at = {};
  };

  AttemptSupervisor(const Options& options, int ranks, TimePoint now);

  std::vector<AttemptAction> step(const AttemptEvent& event, TimePoint now);
  std::optional<TimePoint> next_deadline() const { return deadline_; }

 private:
  enum class Phase { kRunning, kAsking, kEnding, kFinished };
  struct Rank {
    bool ended = false;
    bool asked = false;  // And has neither answered nor ended.
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
