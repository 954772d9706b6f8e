// How a thread waits for another rank before it sleeps: it looks, then lets other threads run.
//
//     for (Patience patience(wait_policy(ranks, cpus)); !has_come(); patience.pause()) {
//       if (patience.is_over()) return sleep();
//     }
//
// Thread safety: one thread at a time.
#pragma once

#include <chrono>
#include <limits>

namespace distrun::shm {

struct WaitPolicy {
  int looks = 0;   // How often to look at a flag without a pause in between.
  int yields = 0;  // How often to let other threads run and look again.
  // After so many consecutive yields in which no other thread ran, it sleeps. sched_yield(2) only
  // lets threads of the same session run, if the scheduler groups threads by sessions (sched(7),
  // autogroup), and each rank has its own session.
  int idle_yields = std::numeric_limits<int>::max();
};
// For ranks that may run on `cpus` CPUs.
WaitPolicy wait_policy(int ranks, int cpus);

class Patience {
 public:
  explicit Patience(const WaitPolicy& policy) : policy_(policy) {}

  void reset() { looks_ = yields_ = idle_ = 0; }

  bool is_over() const {
    return looks_ >= policy_.looks && (yields_ >= policy_.yields || idle_ >= policy_.idle_yields);
  }
  // Whether the next pause lets other threads run, which may take long.
  bool yields_next() const { return looks_ >= policy_.looks; }
  void pause();

  // For pause().
  void yielded(std::chrono::nanoseconds took);

 private:
  const WaitPolicy policy_;
  int looks_ = 0;
  int yields_ = 0;
  int idle_ = 0;
};

}  // namespace distrun::shm
