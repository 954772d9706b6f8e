// How a thread waits for another rank before it sleeps: it looks, then lets other threads run.
//
//     for (Patience patience(wait_policy(ranks, cpus)); !has_come(); patience.pause()) {
//       if (patience.is_over()) return sleep();
//     }
//
// Thread safety: one thread at a time.
#pragma once

namespace distrun::shm {

struct WaitPolicy {
  int looks = 0;   // How often to look at a flag without a pause in between.
  int yields = 0;  // How often to let other threads run and look again.
};
// For ranks that may run on `cpus` CPUs. If they share CPUs, each yields until the others of its
// CPU have had their turn, which takes some yields more than there are others. If it yielded for
// much longer, it would keep those from running that have work.
WaitPolicy wait_policy(int ranks, int cpus);

class Patience {
 public:
  explicit Patience(const WaitPolicy& policy) : policy_(policy) {}

  void reset() { looks_ = yields_ = 0; }

  bool is_over() const { return looks_ >= policy_.looks && yields_ >= policy_.yields; }
  // Whether the next pause lets other threads run, which may take long.
  bool yields_next() const { return looks_ >= policy_.looks; }
  void pause();

 private:
  const WaitPolicy policy_;
  int looks_ = 0;
  int yields_ = 0;
};

}  // namespace distrun::shm
