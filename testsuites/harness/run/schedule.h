// Schedule decides which test is started next, by ranks: as many tests run at once as their ranks
// fit into the jobs.
//
//     Schedule schedule(/*jobs=*/8);
//     schedule.add({.id = 3, .ranks = 4, .exclusive = false, .expected = 120ms});
//     while (auto test = schedule.take()) … start it …
//     schedule.done(3);                                   // then take() again
//
// The longest go first, as far as their time is known, then those with more ranks, then those that
// were added first.  One that does not fit waits; smaller ones that do fit may pass it until it is
// the oldest but `kPassedMax` have passed: it is never starved.  An exclusive one waits until it is
// alone, and so do the others until it is done.
//
// The cost of a call grows with the number of different sizes that wait (ranks, exclusive or not),
// and with the logarithm of the number of tests.  Pure.
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
  std::chrono::milliseconds expected{0};  // How long it will take; 0: not known.
};

class Schedule {
 public:
  static constexpr int kPassedMax = 16;

  // A test with more ranks than `jobs` runs when nothing else does.
  explicit Schedule(int jobs) : jobs_(jobs) {}

  void add(const ScheduledTest& test);

  void set_jobs(int jobs) { jobs_ = jobs; }

  // In the order they were added instead, or as they were shuffled.  Comes before any add().
  void keep_order() { keeps_order_ = true; }

  // What may be started now; it counts as running from then on.
  std::optional<ScheduledTest> take();
  void done(std::size_t id);

  bool is_empty() const { return waiting_.empty() && running_.empty(); }
  int running_ranks() const;

 private:
  // The least is the next: exclusive, expected (negative), ranks (negative), number of its add().
  using Order = std::tuple<bool, std::chrono::milliseconds, int, std::uint64_t>;
  struct Waiting {
    Order order;
    ScheduledTest test;
    friend bool operator<(const Waiting& a, const Waiting& b) { return a.order > b.order; }
  };
  // Of tests that are alike in whether they fit: exclusive or not, and their ranks.
  using Queue = std::priority_queue<Waiting>;
  using Queues = std::map<std::pair<bool, int>, Queue>;

  bool fits(const ScheduledTest& test) const;
  // waiting_.end() where there is none.
  template <class Condition>
  Queues::iterator first(const Condition& condition);
  ScheduledTest start(Queues::iterator from);

  int jobs_;
  bool keeps_order_ = false;
  int passed_ = 0;  // How many have passed the first of those that wait.
  std::uint64_t added_ = 0;
  Queues waiting_;  // None is empty.
  std::vector<ScheduledTest> running_;
};

}  // namespace distrun
