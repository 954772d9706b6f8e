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
// alone, and so do the others until it is done.  Pure.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
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

  // In the order they were added instead, or as they were shuffled.
  void keep_order() { keeps_order_ = true; }

  // What may be started now; it counts as running from then on.
  std::optional<ScheduledTest> take();
  void done(std::size_t id);

  // Nothing more is to be started; what it returns has not been.
  std::vector<ScheduledTest> clear();

  bool is_empty() const { return waiting_.empty() && running_.empty(); }
  int running_ranks() const;

 private:
  bool fits(const ScheduledTest& test) const;

  const int jobs_;
  bool keeps_order_ = false, is_sorted_ = true;
  int passed_ = 0;  // How many have passed the first of those that wait.
  std::vector<ScheduledTest> waiting_, running_;
};

}  // namespace distrun
