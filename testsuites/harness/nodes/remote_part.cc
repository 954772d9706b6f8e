#include "testsuites/harness/nodes/remote_part.h"

#include <utility>

#include <boost/asio/post.hpp>

namespace distrun {

namespace {

void set_back(RankFacts& facts, std::chrono::microseconds time) {
  for (auto* one : {&facts.began_at, &facts.ended_at}) {
    if (*one) **one -= time;
  }
  for (AssertionFailure& failure : facts.failures) {
    if (failure.at) *failure.at -= time;
  }
  if (!facts.collectives) return;
  for (TimedOperation& operation : facts.collectives->times.operations) {
    operation.began -= time;
    if (operation.ended) *operation.ended -= time;
  }
}

}  // namespace

RemotePart::~RemotePart() { order(Kind::kDrop); }

void RemotePart::order(Kind kind, std::vector<int> ranks) {
  if (node_lost_.empty()) send_(PartOrder{kind, options_.first_key, std::move(ranks)});
}

void RemotePart::begin() { send_(BeginPart{options_}); }

void RemotePart::ask(const std::vector<int>& ranks) {
  owes_seen_ = true;
  order(Kind::kAsk, ranks);
  if (!node_lost_.empty()) answer_instead();
}

void RemotePart::end(int rank) { order(Kind::kEnd, {rank}); }

void RemotePart::look() {
  owes_looked_ = true;
  order(Kind::kLook);
  if (!node_lost_.empty()) answer_instead();
}

void RemotePart::finish(bool interrupted) {
  owes_facts_ = true;
  order(interrupted ? Kind::kInterrupt : Kind::kFinish);
  if (!node_lost_.empty()) answer_instead();
}

// The answers that a lost node owes. Posted, because handlers are not called within a call of the
// part.
void RemotePart::answer_instead() {
  boost::asio::post(io_, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self || self->is_over_) return;
    for (int rank = self->options_.first; self->has(rank); ++rank) {
      self->over(rank, RankOutcome::kFailed);
    }
    if (std::exchange(self->owes_seen_, false)) self->handlers_.on_seen({});
    if (std::exchange(self->owes_looked_, false)) self->handlers_.on_looked({});
    if (std::exchange(self->owes_facts_, false)) self->give_lost_facts();
  });
}

void RemotePart::host_lost() {
  has_lost_host_ = true;
  order(Kind::kHostLost);
}

void RemotePart::noted(int rank) {
  if (noted_.insert(rank).second) handlers_.on_noted(rank);
}

void RemotePart::over(int rank, RankOutcome outcome) {
  noted(rank);
  if (over_.insert(rank).second) handlers_.on_over(rank, outcome);
}

void RemotePart::take(const RankReport& report) {
  if (is_over_ || !has(report.rank)) return;
  switch (report.kind) {
    case RankReport::Kind::kNoted:
      return noted(report.rank);
    case RankReport::Kind::kPassed:
      return over(report.rank, RankOutcome::kPassed);
    case RankReport::Kind::kSkipped:
      return over(report.rank, RankOutcome::kSkipped);
    case RankReport::Kind::kFailed:
      return over(report.rank, RankOutcome::kFailed);
    case RankReport::Kind::kAnswered:
      return handlers_.on_answered(report.rank);
    case RankReport::Kind::kCollective:
      return handlers_.on_collective(report.rank, report.text);
  }
}

void RemotePart::take(PartReport report) {
  if (is_over_) return;
  std::erase_if(report.view.stacks, [this](const RankStacks& one) { return !has(one.rank); });
  std::erase_if(report.view.sockets, [this](const RankSocket& one) { return !has(one.rank); });
  std::erase_if(report.view.asked, [this](int rank) { return !has(rank); });
  switch (report.kind) {
    case PartReport::Kind::kReachedHost:
      has_reached_host_ = true;
      return;
    case PartReport::Kind::kSeen:
      if (!std::exchange(owes_seen_, false)) return;
      return handlers_.on_seen(std::move(report.view));
    case PartReport::Kind::kLooked:
      if (!std::exchange(owes_looked_, false)) return;
      return handlers_.on_looked(std::move(report.view));
  }
}

void RemotePart::take(RankFactsTold told, std::chrono::microseconds clock_ahead) {
  if (is_over_ || !has(told.rank)) return;
  set_back(told.facts, clock_ahead);
  facts_[told.rank] = std::move(told.facts);
  if (facts_.size() < static_cast<std::size_t>(options_.count)) return;
  is_over_ = true;
  std::vector<RankFacts> all;
  for (auto& [rank, facts] : facts_) all.push_back(std::move(facts));
  handlers_.on_facts(std::move(all));
}

void RemotePart::node_lost(const std::string& why) {
  if (is_over_ || !node_lost_.empty()) return;
  node_lost_ = why;
  answer_instead();
}

void RemotePart::give_lost_facts() {
  is_over_ = true;
  RankFacts lost;
  lost.node_lost = node_lost_;
  handlers_.on_facts(std::vector<RankFacts>(static_cast<std::size_t>(options_.count), lost));
}

}  // namespace distrun
