// For tests of Join: trains one rank by a pattern.  join_parity_worker.py does the same in Python.
#pragma once

#include <memory>
#include <vector>

#include "distrun/distributed_data_parallel.h"
#include "parallel/ddp/test/join_pattern.h"
#include "parallel/ddp/test/parity_net.h"
#include "parallel/join/test/counting_joinable.h"

namespace distrun::testing {

class JoinTraining {
 public:
  // Every rank of the default group must construct one.
  explicit JoinTraining(const JoinPattern& pattern);
  JoinTraining(const JoinTraining&) = delete;
  JoinTraining& operator=(const JoinTraining&) = delete;

  // This rank's network before training, and the data of all ranks. They depend only on seed and
  // rank.
  const TensorDict& start() const { return start_; }
  const TensorDict& data() const { return data_; }

  // Every rank must call it. Throws the pattern's fault or, on other ranks, Join's error.
  void run();

  // The results of this rank, after run().
  TensorDict state() const { return state_of(*net_); }
  const std::vector<double>& losses() const { return losses_; }
  // The number of ranks in each step, from the other joinable. Empty without one.
  const std::vector<int>& counts() const { return counts_; }
  const std::vector<bool>& last_joiner() const { return counter_.post_hooks; }

 private:
  void fail_where_planned(JoinFault::Place place, int step) const;
  void train();
  void step_of_counter(int step);
  double compute(int step);

  JoinPattern pattern_;
  std::shared_ptr<ParityNetImpl> net_;
  TensorDict start_, data_;
  DistributedDataParallel<ParityNetImpl> ddp_;
  CountingJoinable counter_;
  int main_hooks_ = 0;
  std::vector<double> losses_;
  std::vector<int> counts_;
};

}  // namespace distrun::testing
