#include "testsuites/harness/run/test_queue.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace distrun {

TestQueue::TestQueue(const Options& options) : options_(options), schedule_(options.jobs) {
  if (options_.keeps_order) schedule_.keep_order();
}

void TestQueue::fill(TestPlan plan) {
  if (plan.jobs > 0) schedule_.set_jobs(plan.jobs);
  planned_ = std::move(plan.tests);
  items_.reserve(std::max(planned_.size(), plan.turns.size()));
  for (const auto& turn : plan.turns) {
    items_.push_back({.plan = planned_[turn.test], .repetition = turn.repetition});
  }
  if (items_.empty()) {
    for (const PlannedTest& test : planned_) items_.push_back({.plan = test});
  }
  for (std::size_t i = 0; i < items_.size(); ++i) {
    if (items_[i].plan.skip_reason.empty()) add(i);
  }
}

void TestQueue::add(std::size_t item) {
  const Item& test = items_[item];
  schedule_.add({.id = item,
                 .ranks = test.plan.ranks,
                 .exclusive = test.plan.test.needs.exclusive || test.alone,
                 .expected = test.plan.expected});
}

std::optional<std::size_t> TestQueue::take() {
  if (stopped_) return std::nullopt;
  const auto next = schedule_.take();
  if (!next) return std::nullopt;
  return next->id;
}

std::uint64_t TestQueue::begin(std::size_t item) {
  const std::uint64_t key = next_key_;
  next_key_ += static_cast<std::uint64_t>(items_[item].plan.ranks);
  ++running_;
  items_[item].first_key = key;
  return key;
}

void TestQueue::wait_for_host(std::size_t item) { waiting_for_host_.push_back(item); }

std::vector<std::size_t> TestQueue::take_waiting(std::size_t program) {
  const auto others =
      std::stable_partition(waiting_for_host_.begin(), waiting_for_host_.end(),
                            [&](std::size_t item) { return items_[item].plan.program != program; });
  std::vector<std::size_t> taken(others, waiting_for_host_.end());
  waiting_for_host_.erase(others, waiting_for_host_.end());
  return taken;
}

void TestQueue::host_lost(const std::vector<OnLostHost>& there) {
  for (const OnLostHost& one : there) {
    items_[one.item].is_not_counted = there.size() > 1 || !one.has_reached_host;
  }
}

AfterAttempt TestQueue::attempt_ended(std::size_t item, AttemptResult result) {
  Item& test = items_[item];
  --running_;
  schedule_.done(item);
  if (std::exchange(test.is_not_counted, false) && !stopped_) {
    test.alone = true;
    add(item);
    return AfterAttempt::kNotCounted;
  }
  test.alone = false;
  const bool is_tried_again =
      result.status == TestStatus::kFailed && !stopped_ && result.attempt < options_.attempts_max;
  test.attempts.push_back(std::move(result));
  if (!is_tried_again) return AfterAttempt::kLast;
  add(item);
  return AfterAttempt::kTriedAgain;
}

std::vector<AttemptResult> TestQueue::finish(std::size_t item) {
  items_[item].done = true;
  return std::move(items_[item].attempts);
}

void TestQueue::stop() {
  stopped_ = true;
  waiting_for_host_.clear();
}

bool TestQueue::is_empty() const { return stopped_ ? running_ == 0 : schedule_.is_empty(); }

}  // namespace distrun
