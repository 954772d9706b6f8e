// Schedule decides which test starts next: tests run at once while their ranks fit into `jobs`.
//
//     Schedule schedule(/*jobs=*/8);
//     schedule.add({.id = 3, .ranks = 4, .exclusive = false, .expected = 120ms});
//     while (auto test = schedule.take()) … start it …
//     schedule.done(3);                                   // then take() again
//
// The order is: longest expected time, most ranks, first added.  Smaller tests may overtake one
// that does not fit, but at most `kPassedMax` overtake the first in line, so no test starves. An
// exclusive test runs alone.
//
// Cost of a call: the number of distinct waiting sizes (ranks, exclusive or not) and the logarithm
// of the number of tests. Pure.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

namespace distrun {

struct ScheduledTest {
  std::size_t id = 0;
  int ranks = 1;
  bool exclusive = false;
  std::chrono::milliseconds expected{0};  // Estimated time; 0 if unknown.
};

class Schedule {
 public:
  static constexpr int kPassedMax = 16;

  // A test with more ranks than `jobs` runs alone.
  explicit Schedule(int jobs) : jobs_(jobs) {}

  void add(const ScheduledTest& test);

  void set_jobs(int jobs) { jobs_ = jobs; }

  // Keeps the order of add() instead.  REQUIRES: called before add().
  void keep_order() { keeps_order_ = true; }

  // Starts the next test that fits, if there is one.
  std::optional<ScheduledTest> take();
  void done(std::size_t id);

  bool is_empty() const { return waiting_.empty() && running_.empty(); }
  int running_ranks() const;

 private:
  // The smallest comes next: exclusive, -expected, -ranks, number of its add().
  using Order = std::tuple<bool, std::chrono::milliseconds, int, std::uint64_t>;
  struct Waiting {
    Order order;
    ScheduledTest test;
    friend bool operator<(const Waiting& a, const Waiting& b) { return a.order > b.order; }
  };
  // One queue per (exclusive, ranks): all its tests fit, or none.
  using Queue = std::priority_queue<Waiting>;
  using Queues = std::map<std::pair<bool, int>, Queue>;

  bool fits(const ScheduledTest& test) const;
  // waiting_.end() if there is none.
  template <class Condition>
  Queues::iterator first(const Condition& condition);
  ScheduledTest start(Queues::iterator from);

  int jobs_;
  bool keeps_order_ = false;
  int passed_ = 0;  // Tests that overtook the first in line.
  std::uint64_t added_ = 0;
  Queues waiting_;  // No queue in it is empty.
  std::vector<ScheduledTest> running_;
};

}  // namespace distrun
