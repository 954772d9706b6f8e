// TestQueue has the tests of a run, each repetition an item of its own: which one begins next,
// whose ranks have which keys, and whether an attempt that has ended is the last.
//
//     TestQueue queue({.jobs = 8});
//     queue.fill(plan);
//     while (const auto test = queue.take()) {
//       const std::uint64_t key = queue.begin(*test);        // or queue.wait_for_host(*test)
//       …
//     }
//     if (queue.attempt_ended(*test, result) == AfterAttempt::kLast) …      // then take() again
//
// Items have numbers, in the order of the plan.  There may be hundreds of thousands, of a few
// tests. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "testsuites/harness/run/planned_test.h"
#include "testsuites/harness/run/schedule.h"
#include "testsuites/harness/run/test_events.h"

namespace distrun {

enum class AfterAttempt {
  kNotCounted,  // Another test may have been the cause: it runs again, alone.
  kTriedAgain,  // It failed, and has another attempt.
  kLast,
};

class TestQueue {
 public:
  struct Options {
    int jobs = 1;  // Ranks at a time; a plan may say otherwise.
    int attempts_max = 1;
    bool keeps_order = false;  // Tests begin in the order of the plan.
  };

  struct Item {
    const PlannedTest& plan;
    int repetition = 0;
    std::vector<AttemptResult> attempts;  // Those that count.
    std::uint64_t first_key = 0;          // Of the attempt that runs: its ranks have one each.
    bool alone = false;                   // It was there when a host died.
    bool is_not_counted = false;          // The attempt that runs.
    bool done = false;
  };

  explicit TestQueue(const Options& options);
  TestQueue(TestQueue&&) = default;  // Not to be copied: items refer to their plans.

  // Once.  Tests with a reason to be skipped are items, and are not taken.
  void fill(TestPlan plan);

  std::size_t size() const { return items_.size(); }
  const Item& at(std::size_t item) const { return items_[item]; }

  // What may begin now; nothing once the queue has been stopped.
  std::optional<std::size_t> take();

  // One that was taken begins an attempt; returns the key of its first rank.
  std::uint64_t begin(std::size_t item);
  // Or it waits for the test host of its program, and then those that wait are taken together.
  void wait_for_host(std::size_t item);
  std::vector<std::size_t> take_waiting(std::size_t program);
  // Or it can never begin.
  void give_up(std::size_t item) { schedule_.done(item); }

  // Whose rank it is, of the attempts that run.
  std::optional<std::size_t> of_key(std::uint64_t key) const;

  // These attempts ran on a host that died.  Where one of them was alone there, it is the cause.
  // Those that were not, and those that had not reached the host, do not count.
  struct OnLostHost {
    std::size_t item;
    bool has_reached_host;
  };
  void host_lost(const std::vector<OnLostHost>& there);

  // Keeps the result, if it counts; whatever is to run again waits to be taken.
  AfterAttempt attempt_ended(std::size_t item, AttemptResult result);

  // It is done.  The results of its attempts move out.
  std::vector<AttemptResult> finish(std::size_t item);

  // Nothing is taken, or tried again, from now on.
  void stop();

  // Nothing runs and nothing is left to take.
  bool is_empty() const;

 private:
  void add(std::size_t item);

  const Options options_;
  Schedule schedule_;
  std::vector<PlannedTest> planned_;
  std::vector<Item> items_;
  std::vector<std::size_t> waiting_for_host_;         // Taken from the schedule already.
  std::map<std::uint64_t, std::size_t> item_of_key_;  // By the first key of its attempt.
  std::uint64_t next_key_ = 1;
  bool stopped_ = false;
};

}  // namespace distrun
