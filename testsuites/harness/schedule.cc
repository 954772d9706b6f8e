#include "testsuites/harness/schedule.h"

#include <algorithm>
#include <utility>

namespace distrun {

void Schedule::add(const ScheduledTest& test) {
  waiting_.push_back(test);
  is_sorted_ = false;
}

std::optional<ScheduledTest> Schedule::take() {
  if (!std::exchange(is_sorted_, true) && !keeps_order_) {
    std::stable_sort(waiting_.begin(), waiting_.end(),
                     [](const ScheduledTest& a, const ScheduledTest& b) {
                       if (a.exclusive != b.exclusive) return b.exclusive;
                       return std::pair(a.expected, a.ranks) > std::pair(b.expected, b.ranks);
                     });
  }
  if (waiting_.empty()) return std::nullopt;
  auto chosen = waiting_.begin();
  if (!fits(*chosen)) {
    if (passed_ >= kPassedMax) return std::nullopt;
    chosen = std::find_if(waiting_.begin(), waiting_.end(),
                          [this](const ScheduledTest& test) { return fits(test); });
    if (chosen == waiting_.end()) return std::nullopt;
    ++passed_;
  } else {
    passed_ = 0;
  }
  running_.push_back(*chosen);
  waiting_.erase(chosen);
  return running_.back();
}

void Schedule::done(std::size_t id) {
  std::erase_if(running_, [id](const ScheduledTest& test) { return test.id == id; });
}

std::vector<ScheduledTest> Schedule::clear() { return std::exchange(waiting_, {}); }

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
