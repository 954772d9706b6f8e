#include "testsuites/harness/run/attempt_supervisor.h"

#include <algorithm>
#include <utility>

#include "common/deadline.h"

namespace distrun {

AttemptSupervisor::AttemptSupervisor(const Options& options, int ranks, TimePoint now)
    : options_(options),
      ranks_(static_cast<std::size_t>(ranks)),
      deadline_(deadline_after(options.timeout, now)) {
  if (is_looked_at()) deadline_.reset();
}

std::vector<AttemptAction> AttemptSupervisor::step(const AttemptEvent& event, TimePoint now) {
  if (phase_ != Phase::kFinished) {
    std::visit([&](const auto& what) { handle(what, now); }, event);
    if (all_have_ended()) finish();
  }
  return std::exchange(actions_, {});
}

void AttemptSupervisor::handle(const RankSeenToEnd& event, TimePoint now) {
  Rank& rank = ranks_[static_cast<std::size_t>(event.rank)];
  rank.ended = true;
  if (phase_ == Phase::kAsking) return handle(RankAnswered{event.rank}, now);
  worst_ = std::max(worst_, event.outcome);
  if (phase_ != Phase::kRunning || is_looked_at()) return;
  if (!deadline_) deadline_ = deadline_after(options_.timeout, now);
  if (event.rank != options_.looked_at && event.outcome == RankOutcome::kPassed) return;
  if (worst_ == RankOutcome::kPassed) return;
  const bool failed = worst_ == RankOutcome::kFailed;
  deadline_ = std::min(*deadline_, now + (failed ? options_.grace : options_.skip_grace));
}

void AttemptSupervisor::handle(const RankAnswered& event, TimePoint now) {
  ranks_[static_cast<std::size_t>(event.rank)].asked = false;
  const bool awaited =
      std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.asked; });
  if (phase_ == Phase::kAsking && !awaited) end_all(now);
}

void AttemptSupervisor::handle(const AttemptInterrupted&, TimePoint now) {
  interrupted_ = true;
  if (phase_ == Phase::kRunning) {
    ask(now);
  } else if (phase_ == Phase::kAsking) {
    end_all(now);
  }
}

void AttemptSupervisor::handle(const AttemptContinued& event, TimePoint) {
  if (deadline_) deadline_ = postponed(*deadline_, event.suspended_for);
}

void AttemptSupervisor::handle(const AttemptTick&, TimePoint now) {
  if (now < *deadline_) return;
  if (phase_ == Phase::kRunning) {
    ask(now);
  } else if (phase_ == Phase::kAsking) {
    end_all(now);
  } else {
    finish();
  }
}

void AttemptSupervisor::ask(TimePoint now) {
  phase_ = Phase::kAsking;
  deadline_ = now + options_.answer;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    if (ranks_[i].ended) continue;
    ranks_[i].asked = true;
    actions_.push_back(AskWhere{static_cast<int>(i)});
  }
}

void AttemptSupervisor::end_all(TimePoint now) {
  phase_ = Phase::kEnding;
  deadline_ = now + options_.ending;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    if (!ranks_[i].ended) actions_.push_back(EndRank{static_cast<int>(i)});
  }
}

void AttemptSupervisor::finish() {
  phase_ = Phase::kFinished;
  deadline_.reset();
  actions_.push_back(FinishAttempt{interrupted_});
}

bool AttemptSupervisor::is_looked_at() const {
  const auto rank = options_.looked_at;
  return rank && !ranks_[static_cast<std::size_t>(*rank)].ended;
}

bool AttemptSupervisor::all_have_ended() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.ended; });
}

}  // namespace distrun
