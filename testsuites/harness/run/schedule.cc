#include "testsuites/harness/run/schedule.h"

#include <algorithm>

namespace distrun {

void Schedule::add(const ScheduledTest& test) {
  Order order{test.exclusive, -test.expected, -test.ranks, ++added_};
  if (keeps_order_) order = {false, {}, 0, added_};
  waiting_[{test.exclusive, test.ranks}].push({order, test});
}

std::optional<ScheduledTest> Schedule::take() {
  const auto next = first([](const ScheduledTest&) { return true; });
  if (next == waiting_.end()) return std::nullopt;
  if (fits(next->second.top().test)) {
    passed_ = 0;
    return start(next);
  }
  if (passed_ >= kPassedMax) return std::nullopt;
  const auto smaller = first([this](const ScheduledTest& test) { return fits(test); });
  if (smaller == waiting_.end()) return std::nullopt;
  ++passed_;
  return start(smaller);
}

template <class Condition>
Schedule::Queues::iterator Schedule::first(const Condition& condition) {
  auto found = waiting_.end();
  for (auto queue = waiting_.begin(); queue != waiting_.end(); ++queue) {
    const Waiting& top = queue->second.top();
    if (!condition(top.test)) continue;
    if (found == waiting_.end() || top.order < found->second.top().order) found = queue;
  }
  return found;
}

ScheduledTest Schedule::start(Queues::iterator from) {
  running_.push_back(from->second.top().test);
  from->second.pop();
  if (from->second.empty()) waiting_.erase(from);
  return running_.back();
}

void Schedule::done(std::size_t id) {
  std::erase_if(running_, [id](const ScheduledTest& test) { return test.id == id; });
}

int Schedule::running_ranks() const {
  int ranks = 0;
  for (const ScheduledTest& test : running_) ranks += test.ranks;
  return ranks;
}

bool Schedule::fits(const ScheduledTest& test) const {
  if (running_.empty()) return true;
  const bool exclusive_runs = std::any_of(running_.begin(), running_.end(),
                                          [](const ScheduledTest& one) { return one.exclusive; });
  return !test.exclusive && !exclusive_runs && running_ranks() + test.ranks <= jobs_;
}

}  // namespace distrun
