// TestQueue holds the tests of a run, one item per repetition.  It decides which item starts next,
// gives keys to ranks, and decides whether an attempt was the last.
//
//     TestQueue queue({.jobs = 8});
//     queue.fill(plan);
//     while (const auto test = queue.take()) {
//       const std::uint64_t key = queue.begin(*test);        // or queue.wait_for_host(*test)
//       …
//     }
//     if (queue.attempt_ended(*test, result) == AfterAttempt::kLast) …      // then take() again
//
// Items are numbered in the order of the plan; there may be hundreds of thousands. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "testsuites/harness/run/planned_test.h"
#include "testsuites/harness/run/schedule.h"
#include "testsuites/harness/run/test_events.h"

namespace distrun {

enum class AfterAttempt {
  kNotCounted,  // Another test may be the cause; runs again, alone.
  kTriedAgain,  // Failed, and has another attempt.
  kLast,
};

class TestQueue {
 public:
  struct Options {
    int jobs = 1;  // Ranks at a time, unless the plan has another number.
    int attempts_max = 1;
    bool keeps_order = false;  // Start tests in the order of the plan.
  };

  struct Item {
    const PlannedTest& plan;
    int repetition = 0;
    std::vector<AttemptResult> attempts;  // The counted ones.
    std::uint64_t first_key = 0;          // Of the running attempt's first rank.
    bool alone = false;                   // It was running when a host died.
    bool is_not_counted = false;          // The running attempt.
    bool done = false;
  };

  explicit TestQueue(const Options& options);
  TestQueue(TestQueue&&) = default;  // No copy: items refer to their plans.

  // REQUIRES: called once. Tests with a skip_reason become items but are never taken.
  void fill(TestPlan plan);

  std::size_t size() const { return items_.size(); }
  const Item& at(std::size_t item) const { return items_[item]; }

  // The next item to start; none after stop().
  std::optional<std::size_t> take();

  // Starts an attempt and returns its first rank's key. Requires take().
  std::uint64_t begin(std::size_t item);
  // Instead of begin(): waits for the program's test host. take_waiting() returns all waiting
  // items.
  void wait_for_host(std::size_t item);
  std::vector<std::size_t> take_waiting(std::size_t program);
  // The item can never start.
  void give_up(std::size_t item) { schedule_.done(item); }

  // Reports attempts on a host that died. A single one is the cause; of several, none counts, and
  // neither do those that had not reached the host.
  struct OnLostHost {
    std::size_t item;
    bool has_reached_host;
  };
  void host_lost(const std::vector<OnLostHost>& there);

  // Keeps the result if it counts. An item that runs again must be taken again.
  AfterAttempt attempt_ended(std::size_t item, AttemptResult result);

  // Marks the item as done and moves its results out.
  std::vector<AttemptResult> finish(std::size_t item);

  // Nothing is taken or retried after this.
  void stop();

  // Nothing runs, and nothing is left to take.
  bool is_empty() const;

 private:
  void add(std::size_t item);

  const Options options_;
  Schedule schedule_;
  std::vector<PlannedTest> planned_;
  std::vector<Item> items_;
  std::vector<std::size_t> waiting_for_host_;  // Taken from the schedule.
  int running_ = 0;                            // Attempts.
  std::uint64_t next_key_ = 1;
  bool stopped_ = false;
};

}  // namespace distrun
