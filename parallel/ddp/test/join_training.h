// For the tests of Join: a rank that trains as a pattern says.  join_parity_worker.py does the same
// in Python.
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
  // Of the default group; a collective.
  explicit JoinTraining(const JoinPattern& pattern);
  JoinTraining(const JoinTraining&) = delete;
  JoinTraining& operator=(const JoinTraining&) = delete;

  // What rank 0's network had to begin with, and the data of all ranks: the same of each seed.
  const TensorDict& start() const { return start_; }
  const TensorDict& data() const { return data_; }

  // A collective.  Throws what the pattern's fault is, or what Join makes of it.
  void run();

  // Of this rank: after run().
  TensorDict state() const { return state_of(*net_); }
  const std::vector<double>& losses() const { return losses_; }
  // How many ranks each step had, as the other joinable has counted; empty where there is none.
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
